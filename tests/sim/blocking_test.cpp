// SPDX-License-Identifier: Apache-2.0
// What `blocking` of a step counts, held against the chains of operations that a trace tells.
#include <catch2/catch.hpp>

#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/base/models.h"
#include "tests/sim/test_costs.h"
#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

// Of every operation on rank 0 the end of the last collective that it is, or that it or an earlier
// one of its stream waited for by way of copies; and of the compute stream's pauses the part up to
// there.
struct Chains {
  explicit Chains(const test::VectorSink& sink) : sink_(sink) {
    for (const auto& span : sink.span_rows) {
      if (span.rank == 0) add(span);
    }
  }

  Time blocking() const { return blocking_; }
  Time paused() const { return paused_; }

 private:
  struct Stream {
    Time end = 0, collective = 0;
  };

  void add(const test::VectorSink::SpanRow& span) {
    const std::int32_t id = sink_.ops.at(span.op).stream;
    const StreamRole role = sink_.streams[static_cast<std::size_t>(id)];
    Stream& own = streams_[id];
    Time collective = role == StreamRole::compute ? 0 : own.collective;
    for (const std::int32_t waited : sink_.after.at(span.op)) {
      const auto found = collective_of_.find(waited);
      if (found != collective_of_.end()) collective = std::max(collective, found->second);
    }
    if (role == StreamRole::compute) {
      paused_ += span.begin - own.end;
      blocking_ += std::max<Time>(0, std::min(collective, span.begin) - own.end);
      collective = 0;
    }
    if (role == StreamRole::communication) collective = span.end;
    own = {span.end, collective};
    collective_of_[span.op] = collective;
  }

  const test::VectorSink& sink_;
  std::map<std::int32_t, Stream> streams_;
  std::map<std::int32_t, Time> collective_of_;
  Time blocking_ = 0, paused_ = 0;
};

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
  const Chains chains(sink);
  Time blocking = 0;
  for (const auto& step : sink.steps) blocking += step.blocking[0];
  CHECK(blocking == chains.blocking());
  CHECK(blocking > 0);
  CHECK(blocking < chains.paused());  // copies take time, too
}

}  // namespace
}  // namespace tessera
