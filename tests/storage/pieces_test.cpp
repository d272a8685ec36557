// SPDX-License-Identifier: Apache-2.0
// Long recordings are read in pieces.
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <tuple>

#include "tests/require_ok.h"
#include "tests/storage/recording.h"

namespace tessera::storage {
namespace {

using test::require_value;

constexpr Time end_of_time = std::numeric_limits<Time>::max();

// So that pieces can be put together.
using SpansByStream =
    std::map<std::int32_t, std::vector<std::tuple<std::int32_t, Time, Time, Time>>>;

void add_spans(const std::vector<Lane>& lanes, SpansByStream& spans) {
  for (const Lane& lane : lanes) {
    for (std::size_t k = 0; k < lane.op.size(); ++k) {
      spans[lane.stream].emplace_back(lane.op[k], lane.begin[k], lane.ready[k], lane.end[k]);
    }
  }
}

TEST_CASE("what is read piece by piece is what is read at once", "[storage]") {
  const test::Folder folder("pieces");
  const test::Recording recording = test::random_recording(
      5, {.ranks = 3, .steps = 3, .ops = 20'000, .samples_per_rank = 20'000});
  write(recording, folder / "whole");
  const TraceReader reader = require_value(TraceReader::open(folder / "whole"));

  std::vector<std::int32_t> ids, all_ids;
  for (const OpRow& op : recording.ops) all_ids.push_back(op.id);
  while (true) {
    const auto page = require_value(reader.first_ops(ids.empty() ? 0 : ids.back() + 1, 999));
    CHECK(page.size() <= 999);
    if (page.empty()) break;
    for (const OpRow& op : page) ids.push_back(op.id);
  }
  CHECK(ids == all_ids);

  std::vector<std::pair<std::int32_t, Rank>> kernels{{-1, -1}}, all_kernels{{-1, -1}};
  for (const KernelRow& kernel : recording.kernels)
    all_kernels.emplace_back(kernel.op, kernel.rank);
  while (true) {
    const auto& [op, rank] = kernels.back();
    const auto page = require_value(reader.kernels_after(op, rank, 2));
    if (page.empty()) break;
    for (const KernelRow& kernel : page) kernels.emplace_back(kernel.op, kernel.rank);
  }
  CHECK(kernels == all_kernels);

  std::size_t pieces = 0;
  for (const Rank rank : recording.info.run.recorded_ranks) {
    SpansByStream spans, all_spans;
    add_spans(require_value(reader.lanes(rank, 0, end_of_time)), all_spans);
    for (const SpanStretch& stretch : require_value(reader.span_stretches(rank))) {
      add_spans(require_value(reader.lanes(rank, stretch)), spans);
      ++pieces;
    }
    CHECK(spans == all_spans);

    std::vector<Time> times;
    for (const std::int64_t seq : require_value(reader.sample_chunks(rank))) {
      const auto piece = require_value(reader.chunk_memory(rank, seq));
      times.insert(times.end(), piece.time.begin(), piece.time.end());
      ++pieces;
    }
    CHECK(times == require_value(reader.memory(rank)).time);
  }
  CHECK(pieces > 2 * recording.info.run.recorded_ranks.size());
}

}  // namespace
}  // namespace tessera::storage
