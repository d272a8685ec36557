// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>
#include <tuple>

#include "tests/storage/recording.h"

namespace tessera::test {
namespace {

auto tied(const storage::StreamRow& r) { return std::tie(r.id, r.name, r.role); }
auto tied(const storage::CommunicatorRow& r) {
  return std::tie(r.id, r.name, r.group_size, r.group_count);
}
auto tied(const storage::UnitRow& r) {
  return std::tie(r.id, r.name, r.parameters, r.numel, r.padding);
}
auto tied(const storage::OpRow& r) {
  return std::tie(r.id, r.kind, r.stream, r.communicator, r.step, r.micro_batch, r.phase, r.reason,
                  r.unit, r.module, r.label, r.algorithm, r.bytes, r.dtype, r.flops);
}
auto tied(const storage::BufferRow& r) {
  return std::tie(r.id, r.name, r.unit, r.memory_class, r.bytes);
}
auto tied(const storage::Lane& r) {
  return std::tie(r.rank, r.stream, r.op, r.begin, r.ready, r.end);
}
auto tied(const storage::DiagnosticRow& r) {
  return std::tie(r.severity, r.code, r.message, r.rank, r.op, r.time);
}
auto tied(const storage::MemoryShortageRow& r) {
  return std::tie(r.rank, r.time, r.buffer, r.request, r.capacity, r.free, r.largest_free);
}
auto tied(const MemoryBlock& r) {
  return std::tie(r.address, r.bytes, r.segment, r.stream, r.buffer);
}
auto tied(const storage::KernelRow& r) { return std::tie(r.op, r.rank, r.time); }
auto tied(const PeakMemory& r) {
  return std::tie(r.step, r.first_rank, r.end_rank, r.allocated, r.reserved, r.by_class);
}
auto tied(const TraceRun& r) {
  return std::tie(r.name, r.model, r.scheme, r.cluster, r.backend, r.options, r.version, r.seed,
                  r.ranks, r.ranks_per_node, r.parameters, r.tokens_per_step,
                  r.model_flops_per_step, r.peak_flops_per_rank, r.peak_name, r.memory_per_rank,
                  r.recorded_ranks);
}

template <class Row>
void check_rows(const char* what, const std::vector<Row>& got, const std::vector<Row>& expected) {
  INFO(what);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("row " << i);
    CHECK((tied(got[i]) == tied(expected[i])));
  }
}

void check_ranks(const storage::TraceReader& reader, const Recording& recording) {
  std::vector<storage::Lane> lanes;
  for (Rank rank = 0; rank < recording.info.run.ranks; ++rank) {
    auto of_rank =
        reader.lanes(rank, std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max());
    REQUIRE(of_rank.ok());
    for (storage::Lane& lane : *of_rank) lanes.push_back(std::move(lane));
  }
  check_rows("lanes", lanes, recording.lanes);
  for (const storage::MemorySeries& expected : recording.memory) {
    auto got = reader.memory(expected.rank);
    REQUIRE(got.ok());
    CHECK(got->rank == expected.rank);
    CHECK((std::tie(got->time, got->buffer, got->memory_class, got->delta, got->allocated,
                    got->reserved) == std::tie(expected.time, expected.buffer,
                                               expected.memory_class, expected.delta,
                                               expected.allocated, expected.reserved)));
  }
}

}  // namespace

void check_equal(const storage::TraceReader& reader, const Recording& recording) {
  CHECK((tied(reader.info().run) == tied(recording.info.run)));
  CHECK(reader.info().steps == recording.info.steps);
  CHECK(reader.info().end == recording.info.end);
  check_rows("streams", reader.info().streams, recording.info.streams);
  check_rows("communicators", reader.info().communicators, recording.info.communicators);
  check_rows("units", reader.info().units, recording.info.units);
  auto ops = reader.ops();
  REQUIRE(ops.ok());
  check_rows("ops", *ops, recording.ops);
  const auto waits = reader.waits(0, std::numeric_limits<std::int32_t>::max());
  REQUIRE(waits.ok());
  for (std::size_t i = 0; i < recording.ops.size(); ++i) {
    const auto after = waits->of(recording.ops[i].id);
    CHECK(std::vector(after.begin(), after.end()) == recording.after[i]);
  }
  auto buffers = reader.buffers();
  REQUIRE(buffers.ok());
  check_rows("buffers", *buffers, recording.buffers);
  check_ranks(reader, recording);
  auto steps = reader.rank_steps();
  REQUIRE(steps.ok());
  const storage::RankSteps &got = *steps, &expected = recording.rank_steps;
  CHECK(got.ranks == expected.ranks);
  CHECK(got.steps == expected.steps);
  CHECK((std::tie(got.begin, got.end, got.compute, got.communication, got.exposed, got.blocking,
                  got.wait, got.peak_allocated, got.peak_reserved) ==
         std::tie(expected.begin, expected.end, expected.compute, expected.communication,
                  expected.exposed, expected.blocking, expected.wait, expected.peak_allocated,
                  expected.peak_reserved)));
  auto peaks = reader.peak_memory();
  REQUIRE(peaks.ok());
  check_rows("peaks", *peaks, recording.peaks);
  auto diagnostics = reader.diagnostics();
  REQUIRE(diagnostics.ok());
  check_rows("diagnostics", *diagnostics, recording.diagnostics);
  auto kernels = reader.kernels();
  REQUIRE(kernels.ok());
  check_rows("kernels", *kernels, recording.kernels);
  auto shortages = reader.memory_shortages();
  REQUIRE(shortages.ok());
  check_rows("shortages", *shortages, recording.shortages);
  for (std::size_t i = 0; i < recording.shortages.size(); ++i) {
    check_rows("blocks", (*shortages)[i].map, recording.shortages[i].map);
  }
}

}  // namespace tessera::test
