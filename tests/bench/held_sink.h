// SPDX-License-Identifier: Apache-2.0
// A recording with planted faults: what ranks hold, and how long they compute.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/tracing/passing_sink.h"

namespace tessera::bench {

/// What a rank holds at the peak of a step, instead of what it does.
using Held = std::function<Bytes(std::int32_t step, Rank rank, Bytes peak)>;
/// How long a rank computes in a step, instead of how long it does.
using Computed = std::function<Time(std::int32_t step, Rank rank, Time compute)>;

/// Passes a recording on, but for peaks of memory and times of computing.
class HeldSink final : public PassingSink {
 public:
  HeldSink(TraceSink& to, Held held, Computed computed)
      : PassingSink(to), held_(std::move(held)), computed_(std::move(computed)) {}

  void rank_steps(const RankStepBatch& steps) override {
    std::vector<Bytes> held;
    for (std::size_t rank = 0; rank < steps.peak_allocated.size(); ++rank) {
      held.push_back(held_(steps.step, static_cast<Rank>(rank), steps.peak_allocated[rank]));
    }
    std::vector<Time> computed;
    for (std::size_t rank = 0; rank < steps.compute.size(); ++rank) {
      computed.push_back(computed_(steps.step, static_cast<Rank>(rank), steps.compute[rank]));
    }
    RankStepBatch changed = steps;
    changed.peak_allocated = held;
    changed.compute = computed;
    to().rank_steps(changed);
  }

 private:
  Held held_;
  Computed computed_;
};

}  // namespace tessera::bench
