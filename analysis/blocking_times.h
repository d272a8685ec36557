// SPDX-License-Identifier: Apache-2.0
// How long the compute of a rank stood still for each of its collectives.
//
// The idea: exposed is not blocking. While nothing is computed, what ended last before compute went
// on was waited for, and before that what this one had waited for: the parts of the pause that
// collectives on this chain fill are theirs.
//
//   const BlockingTimes blocking(trace, lanes, compute, from);
//   blocking.of(op.id);  // ns
#pragma once

#include <map>

#include "tessera/analysis/spans.h"

namespace tessera::analysis {

class BlockingTimes {
 public:
  /// Of pauses that end at `from` or later. `lanes` are all of one rank, `compute` those that
  /// compute.
  BlockingTimes(const Trace& trace, Lanes lanes, Lanes compute, Time from);

  /// The trace says what operations waited for; imported ones do not, or the file is damaged.
  bool known() const { return known_; }
  /// 0: compute went on beside it, or waited for something else.
  Time of(std::int32_t op) const {
    const auto found = times_.find(op);
    return found == times_.end() ? 0 : found->second;
  }

 private:
  struct Place {
    const storage::Lane* lane = nullptr;
    std::size_t index = 0;
  };
  Place find(const Trace& trace, Lanes lanes, std::int32_t op) const;
  void follow(const Trace& trace, Lanes lanes, const storage::OpWaits& waits, Place paused,
              Time from);

  bool known_ = false;
  std::map<std::int32_t, Time> times_;  // by op
};

}  // namespace tessera::analysis
