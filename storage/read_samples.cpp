// SPDX-License-Identifier: Apache-2.0
#include "storage/read_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "storage/read_chunks.h"
#include "storage/sample_decoder.h"

namespace tessera::storage {
namespace {

// Samples of a rank in memory take so many bytes for each of the file at most, and some anyway:
// what ranks share counts for each who shares it, but operations, to which samples belong, are in
// the file.
constexpr std::int64_t sample_size = 37, expansion_max = 16, expansion_anyway = 16 << 20;

constexpr const char* samples_sql =
    "SELECT rank, -1, seq, count, t0, t1, checksum, data FROM memory_chunk WHERE rank = ?"
    " AND seq BETWEEN ? AND ? ORDER BY seq";

}  // namespace

/// Begins and ends of the operations of a rank, ascending.
struct SampleReader::Times {
  struct Span {
    std::int32_t op;
    Time begin, end;
  };
  Rank rank = -1;
  std::vector<Span> spans;
  std::size_t last = 0;  // samples come in about the order of operations

  std::optional<Time> find(Edge edge) {
    if (edge < 0 || edge / 2 > std::numeric_limits<std::int32_t>::max()) return {};
    const auto op = static_cast<std::int32_t>(edge / 2);
    constexpr std::size_t near = 64;
    const auto before = [](const Span& span, std::int32_t wanted) { return span.op < wanted; };
    auto from = spans.begin();
    const std::size_t low = last > near ? last - near : 0;
    const std::size_t high = std::min(spans.size(), last + near);
    auto to = spans.end();
    if (low < high && spans[low].op <= op && spans[high - 1].op >= op) {
      to = from + static_cast<std::ptrdiff_t>(high);
      from += static_cast<std::ptrdiff_t>(low);
    }
    const auto found = std::lower_bound(from, to, op, before);
    if (found == to || found->op != op) return {};
    last = static_cast<std::size_t>(found - spans.begin());
    return edge % 2 == 0 ? found->begin : found->end;
  }
};

SampleReader::SampleReader(const Database& database, const SpanReader& spans, std::uint32_t version)
    : database_(database), spans_(spans), version_(version), times_(std::make_unique<Times>()) {}
SampleReader::~SampleReader() = default;

Status SampleReader::load_times(Rank rank) {
  if (times_->rank == rank) return {};
  *times_ = {};
  constexpr SpanRange all{std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max()};
  TESSERA_ASSIGN(const std::vector<Lane> lanes, spans_.read(rank, all));
  for (const Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      times_->spans.push_back({lane.op[i], lane.begin[i], lane.end[i]});
    }
  }
  const auto before = [](const Times::Span& a, const Times::Span& b) { return a.op < b.op; };
  if (!std::is_sorted(times_->spans.begin(), times_->spans.end(), before)) {
    std::stable_sort(times_->spans.begin(), times_->spans.end(), before);
  }
  times_->rank = rank;
  return {};
}

Status SampleReader::append(const ChunkHeader& header, Blob data, MemorySeries& series) {
  if (std::exchange(counted_, header.rank) != header.rank) entries_ = 0;
  entries_ += std::clamp<std::int64_t>(header.count, 0, sample_count_max);
  TESSERA_TRY(version_ < 2 ? decode_samples(header, data, series)
                           : append_shared(header, data, series));
  if (entries_ * sample_size <= expansion_max * database_.size() + expansion_anyway) return {};
  return {
      Code::corrupt,
      fmt::format("The trace is damaged: memory_chunk has {} entries of rank {} in a file of {} "
                  "bytes, more than any recording.",
                  entries_, header.rank, database_.size())};
}

Status SampleReader::append_shared(const ChunkHeader& header, Blob data, MemorySeries& series) {
  TESSERA_TRY(load_times(header.rank));
  SampleContext context;
  context.time_of = [this](Edge edge) { return times_->find(edge); };
  context.data_of = [this](Rank rank,
                           const ChunkHeader& like) -> Result<std::vector<std::uint8_t>> {
    TESSERA_ASSIGN(Statement chunk, database_.prepare(samples_sql));
    chunk.bind(rank, like.seq, like.seq);
    std::vector<std::uint8_t> found;
    TESSERA_TRY(for_each_chunk(chunk, [&](const ChunkHeader& other, Blob bytes) {
      if (other.count == like.count) found.assign(bytes.begin(), bytes.end());
      return Status();
    }));
    return found;
  };
  return decode_shared_samples(header, data, context, series);
}

Result<MemorySeries> SampleReader::read(Rank rank) {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(samples_sql));
  chunks.bind(rank, 0, std::numeric_limits<std::int64_t>::max());
  MemorySeries series;
  series.rank = rank;
  counted_ = -1;
  TESSERA_TRY(for_each_chunk(
      chunks, [&](const ChunkHeader& header, Blob data) { return append(header, data, series); }));
  return series;
}

}  // namespace tessera::storage
