// SPDX-License-Identifier: Apache-2.0
// The cost of a policy of zero3 in the simulator: time in which the compute stream is idle, and the
// peak memory of gathered parameters, from the runtime's own account of memory.
#pragma once

#include "tessera/sim/cost_model.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tessera/zero3.h"

namespace tessera::test {

/// Collects the figures of rank 0 from memory samples and rows of steps.
class PolicySink final : public TraceSink {
 public:
  Bytes live{}, peak{};
  struct Step {
    Time time = 0, exposed = 0, stalled = 0;
  };
  std::vector<Step> steps;

  void begin(const TraceRun&) override {}
  void stream(const TraceStream&) override {}
  void communicator(const TraceCommunicator&) override {}
  void unit(const TraceUnit&) override {}
  void op(const TraceOp&) override {}
  void spans(const SpanBatch&) override {}
  void buffer(const TraceBuffer&) override {}
  void memory(std::span<const MemorySample> samples) override {
    for (const MemorySample& sample : samples) {
      if (sample.memory_class != MemoryClass::unsharded_parameters &&
          sample.memory_class != MemoryClass::all_gather_buffers) {
        continue;
      }
      live += sample.delta;
      peak = std::max(peak, live);
    }
  }
  void peak_memory(const PeakMemory&) override {}
  void rank_steps(const RankStepBatch& row) override {
    const Time time = row.end[0] - row.begin[0];
    steps.push_back({time, row.exposed[0], time - row.compute[0]});
  }
  void diagnostic(const TraceDiagnostic&) override {}
  Status finish() override { return {}; }
};

struct PolicyRun {
  Status status;
  Bytes peak{};
  std::vector<PolicySink::Step> steps;

  Time stalled() const {
    Time sum = 0;
    for (const auto& step : steps) sum += step.stalled;
    return sum;
  }
};

inline PolicyRun run_policy(const Model& model, const sim::CostModel& costs, Rank ranks,
                            const Zero3Options& options, const TrainingOptions& training,
                            int steps) {
  PolicyRun run;
  PolicySink sink;
  auto runtime = sim::LockstepRuntime::create({.world_size = ranks,
                                               .ranks_per_node = static_cast<Index>(ranks),
                                               .cost = &costs,
                                               .sink = &sink,
                                               .recorded_ranks = {0}});
  if (!runtime.ok()) return {runtime.status(), {}, {}};
  auto engine = zero3(**runtime, model, options);
  run.status = engine.status();
  for (int step = 0; step < steps && run.status.ok(); ++step) {
    run.status = run_training_step(**engine, model, training);
  }
  if (run.status.ok()) run.status = (*runtime)->finish();
  run.peak = sink.peak;
  run.steps = std::move(sink.steps);
  return run;
}

}  // namespace tessera::test
