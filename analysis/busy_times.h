// SPDX-License-Identifier: Apache-2.0
// When some lanes of one rank are busy, and for how long until a moment.
//
// The idea: exposed time is asked for once per span of a run, in ascending order of time. Sums of
// what was busy before, and the place of the last answer, make each a few steps.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/analysis/spans.h"

namespace tessera::analysis {

class BusyTimes {
 public:
  explicit BusyTimes(Lanes lanes);

  /// ns before `time` in which any of the lanes is busy. Quick if times ascend from call to call.
  Time before(Time time);

 private:
  struct Stretch {
    Time begin = 0, end = 0, before = 0;
    Time after() const { return before + end - begin; }  // busy until its end
  };
  Time all() const { return stretches_.empty() ? 0 : stretches_.back().after(); }

  std::vector<Stretch> stretches_;  // in which at least one is busy, ascending
  std::size_t place_ = 0;           // of the first that ends later than what was asked for last
};

}  // namespace tessera::analysis
