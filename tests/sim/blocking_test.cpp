// SPDX-License-Identifier: Apache-2.0
// What `blocking` of a step counts, held against the chains of operations that a trace tells.
#include <catch2/catch.hpp>

#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/base/models.h"
#include "tests/sim/test_costs.h"
#include "tests/sim/vector_sink.h"
#include "tests/tracing/blocking_chains.h"

namespace tessera {
namespace {

test::BlockingChains chains_of(const test::VectorSink& sink, Rank rank) {
  test::BlockingChains chains;
  for (const auto& span : sink.span_rows) {
    if (span.rank != rank) continue;
    const std::int32_t stream = sink.ops.at(span.op).stream;
    chains.add(span.op, stream, sink.streams[static_cast<std::size_t>(stream)], span.begin,
               span.end, sink.after.at(span.op));
  }
  return chains;
}

TEST_CASE("compute that waits for a copy of what was gathered is blocked by the all_gather",
          "[sim][accounts]") {
  const auto policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  const test::TestCosts costs;
  const Model model = test::g3();
  test::VectorSink sink;
  auto runtime = sim::LockstepRuntime::create(
      {.world_size = 4, .ranks_per_node = 2, .cost = &costs, .sink = &sink, .recorded_ranks = {0}});
  REQUIRE(runtime.ok());
  auto engine = zero3(**runtime, model, {.policy = policy});
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) {
    REQUIRE(run_training_step(**engine, model, TrainingOptions{}).ok());
  }
  REQUIRE((*runtime)->finish().ok());
  const test::BlockingChains chains = chains_of(sink, 0);
  Time blocking = 0;
  for (const auto& step : sink.steps) blocking += step.blocking[0];
  CHECK(blocking == chains.blocking());
  CHECK(blocking > 0);
  CHECK(blocking < chains.paused());  // copies take time, too
}

}  // namespace
}  // namespace tessera
