// SPDX-License-Identifier: Apache-2.0
// Where the samples of a rank are cut into chunks: between steps.
//
// The idea: within a step each rank has its own order of samples, because streams interleave in
// their own way; of a whole step all ranks have the same ones.
#pragma once

#include <deque>

#include "storage/per_rank.h"

namespace tessera::storage {

class StepCuts {
 public:
  explicit StepCuts(std::int32_t ranks) : ranks_(ranks) {}

  /// An operation of `step` begins. The first one of each step says where the step begins.
  void begin(Rank rank, std::int32_t step, Time time) {
    Steps& steps = ranks_.of(rank);
    if (step <= steps.last) return;
    steps.last = step;
    steps.begins.push_back(time);
  }
  /// Whether the sample is the first one of a step. REQUIRES: those of a rank ascend in time.
  bool before(const MemorySample& sample) {
    std::deque<Time>& begins = ranks_.of(sample.rank).begins;
    bool cut = false;
    // What the last step leaves goes before what the next one takes.
    const bool comes = sample.delta > Bytes{0};
    while (!begins.empty() &&
           (comes ? begins.front() <= sample.time : begins.front() < sample.time)) {
      begins.pop_front();
      cut = true;
    }
    return cut;
  }

 private:
  struct Steps {
    std::int32_t last = -1;
    std::deque<Time> begins;  // that no sample has reached
  };
  PerRank<Steps> ranks_;
};

}  // namespace tessera::storage
