// SPDX-License-Identifier: Apache-2.0
// The runtime of examples/own_runtime: numbers, memory and trace are the simulator's, and a
// schedule with a fault is refused.
#include "examples/own_runtime/own_runtime.h"

#include <catch2/catch.hpp>

#include "tests/backends/host/trace_checks.h"
#include "tests/schemes/fully_shard/faulty_runtime.h"

namespace tessera {
namespace {

using test::RecordedTrace;
using test::Trained;

std::vector<Trained> trained(own::OwnRuntime& runtime, const test::Run& run) {
  std::vector<Trained> all(static_cast<std::size_t>(run.ranks));
  const Status status = test::train(
      runtime, run, [&](Rank r) -> Trained& { return all[static_cast<std::size_t>(r)]; },
      [&] { return runtime.finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
  return all;
}

TEST_CASE("a runtime of one's own has the simulator's numbers, peaks and trace, in every scheme",
          "[own]") {
  const Rank ranks = GENERATE(2, 4);
  for (const auto& [name, scheme] : test::schemes()) {
    INFO(name << " on " << ranks << " ranks");
    const test::Run run = test::training_run(scheme, ranks);
    RecordedTrace own, simulated;
    own::OwnRuntime runtime(ranks, &own);
    const std::vector<Trained> results = trained(runtime, run);
    Bytes peak{};
    const std::vector<Trained> expected = test::simulated(run, peak);
    CHECK(runtime.peak_reserved() == peak);
    for (std::size_t r = 0; r < results.size(); ++r) {
      CHECK(results[r].shards == expected[r].shards);
      CHECK(results[r].losses == expected[r].losses);
    }
    test::simulate(run, simulated);
    CHECK(own.order == simulated.order);
    CHECK(own.peaks == simulated.peaks);
    CHECK(own.steps.size() == simulated.steps.size());
    test::check_times(own, ranks);
    test::check_memory(own, ranks);
  }
}

TEST_CASE("a runtime of one's own refuses a schedule without a wait", "[own][faults]") {
  own::OwnRuntime runtime(4);
  bool dropped = false;
  test::FaultyRuntime careless(runtime, [&](const Op& op) -> std::vector<Op> {
    const bool drop = std::holds_alternative<Wait>(op.what) && op.cause.unit == "pair" &&
                      op.cause.reason == Reason::needed && !dropped;
    dropped = dropped || drop;
    return drop ? std::vector<Op>{} : std::vector<Op>{op};
  });
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, 4);
  Trained ignored;
  const Status refused = test::train(
      careless, run, [&](Rank) -> Trained& { return ignored; }, [&] { return runtime.finish(); });
  CHECK(dropped);
  CHECK(refused.code() == Code::hazard);
  CHECK_THAT(refused.message(), Catch::Contains("rank 0") && Catch::Contains("pair"));
}

TEST_CASE("a result that nobody used ends a run of one's own with a hazard", "[own][faults]") {
  own::OwnRuntime runtime(2);
  const StreamId stream = *runtime.create_stream("collectives", StreamRole::communication);
  const CommunicatorId all = *runtime.create_communicator(*RankGroups::strided(2, 2), "all");
  const BufferId buffer = *runtime.allocate(
      {.bytes = 8_bytes, .stream = stream, .where = runtime.world(), .name = "sum"});
  const View view = View::whole(buffer, DType::float32, Numel{2});
  Op fill{.stream = stream, .where = runtime.world(), .after = {}, .cause = {}, .what = {}};
  fill.what = Compute{.cost = {}, .reads = {}, .writes = {view}, .body = {}, .zeroed = {0}};
  REQUIRE(runtime.submit(fill).ok());
  fill.what = AllReduce{all, view, view, Reduction::sum};
  REQUIRE(runtime.submit(fill).ok());
  const Status ended = runtime.finish();
  CHECK(ended.code() == Code::hazard);
  CHECK_THAT(ended.message(), Catch::Contains("without using the result"));
}

}  // namespace
}  // namespace tessera
