// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/spans.h"

#include <catch2/catch.hpp>

#include "tessera/analysis/collectives.h"
#include "tessera/storage/trace_writer.h"

namespace tessera::analysis {
namespace {

// One all_gather of two ranks that takes 1000 ns on both, whose kernels differ.
void write_trace(const std::string& path) {
  TraceRun run;
  run.ranks = 2;
  run.ranks_per_node = 2;
  run.recorded_ranks = {0, 1};
  run.options = "{}";
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  sink.stream({0, "communication", StreamRole::communication});
  sink.communicator({0, "world", 2, 1});
  sink.op({.id = 0, .kind = OpKind::all_gather, .communicator = 0, .bytes = Bytes{4000}});
  const std::vector<Rank> ranks = {0, 1};
  const std::vector<Time> begin = {0, 0}, end = {1000, 1000};
  sink.spans({0, ranks, begin, begin, end});
  sink.kernel({0, 0, 800});
  sink.kernel({1, 0, 500});
  REQUIRE(sink.finish().ok());
}

TEST_CASE("a collective's kernel time is that of the rank that is pointed at",
          "[analysis][facts]") {
  const std::string path = std::string(TESSERA_BINARY_DIR) + "/span_facts_test.tessera";
  write_trace(path);
  const auto trace = Trace::open(path);
  REQUIRE(trace.ok());
  const auto of_rank = [&](Rank rank) {
    const auto lanes = trace->reader().lanes(rank, 0, 1001);
    REQUIRE(lanes.ok());
    return facts_of(*trace, compute_lanes(*trace, *lanes), lanes->at(0), 0);
  };
  const SpanFacts first = of_rank(0);
  const SpanFacts second = of_rank(1);
  CHECK(first.kernel == 800);
  CHECK(second.kernel == 500);
  CHECK(first.bus_bandwidth == Approx(2e9));
  CHECK(second.bus_bandwidth == Approx(2e9));
  CHECK(first.kernel_bus_bandwidth == Approx(2.5e9));
  CHECK(second.kernel_bus_bandwidth == Approx(4e9));
}

TEST_CASE("bus factors are those of nccl-tests", "[analysis][facts]") {
  CHECK(bus_factor(OpKind::all_gather, 8) == 7.0 / 8);
  CHECK(bus_factor(OpKind::reduce_scatter, 8) == 7.0 / 8);
  CHECK(bus_factor(OpKind::all_to_all, 8) == 7.0 / 8);
  CHECK(bus_factor(OpKind::all_reduce, 8) == 14.0 / 8);
  CHECK(bus_factor(OpKind::broadcast, 8) == 1);
}

TEST_CASE("what no compute covers is exposed", "[analysis][facts]") {
  storage::Lane first, second;
  first.begin = {100, 300};
  first.end = {200, 400};
  second.begin = {150};
  second.end = {250};
  const std::vector<const storage::Lane*> compute = {&first, &second};
  using Parts = std::vector<std::pair<Time, Time>>;
  CHECK(exposed_parts(compute, 0, 500) == Parts{{0, 100}, {250, 300}, {400, 500}});
  CHECK(exposed_parts(compute, 150, 200).empty());
  CHECK(exposed_parts({}, 1, 2) == Parts{{1, 2}});
}

}  // namespace
}  // namespace tessera::analysis
