// SPDX-License-Identifier: Apache-2.0
#include "analysis/busy_times.h"

#include <algorithm>

namespace tessera::analysis {

BusyTimes::BusyTimes(Lanes lanes) {
  std::vector<std::size_t> next(lanes.size(), 0);
  while (true) {
    std::size_t first = lanes.size();  // the lane whose next span begins first
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      if (next[k] == lanes[k]->begin.size()) continue;
      if (first < lanes.size() && lanes[first]->begin[next[first]] <= lanes[k]->begin[next[k]]) {
        continue;
      }
      first = k;
    }
    if (first == lanes.size()) break;
    const std::size_t i = next[first]++;
    const Time begin = lanes[first]->begin[i], end = lanes[first]->end[i];
    if (begin >= end) continue;
    if (!stretches_.empty() && begin <= stretches_.back().end) {
      stretches_.back().end = std::max(stretches_.back().end, end);
      continue;
    }
    stretches_.push_back({begin, end, all()});
  }
}

Time BusyTimes::before(Time time) {
  while (place_ > 0 && stretches_[place_ - 1].end > time) --place_;
  while (place_ < stretches_.size() && stretches_[place_].end <= time) ++place_;
  if (place_ == stretches_.size()) return all();
  const Stretch& at = stretches_[place_];
  return at.before + std::max<Time>(0, time - at.begin);
}

}  // namespace tessera::analysis
