// SPDX-License-Identifier: Apache-2.0
// Which part of a long recording is in memory: what is in view, and some beside it.
//
// The idea: a view that is crowded, with far more than a screen can tell apart, is drawn from sums
// and needs nothing of it; any other has few enough to read them when the view comes there.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::inspector {

class ViewWindow {
 public:
  /// When entries of a rank are, and how many; of the run that ends at `end`. More than `most` of
  /// them in view are a crowd; up to four times as many are all kept.
  ViewWindow(std::vector<storage::SpanStretch> stretches, Time end, std::int64_t most);

  /// Everything is in memory, wherever one looks.
  bool whole() const { return whole_; }
  /// Chooses what is to be in memory for a view of [from, to); true if that changed.
  bool look_at(Time from, Time to);
  /// The view has more than can be told apart.
  bool crowded() const { return crowded_; }
  /// What is in memory: [first, second).
  std::pair<Time, Time> range() const { return range_; }
  /// About how many entries of a rank are in [from, to).
  double count(Time from, Time to) const;

 private:
  std::vector<storage::SpanStretch> stretches_;
  Time end_;
  std::int64_t most_;
  bool whole_ = false, crowded_ = false;
  std::pair<Time, Time> range_{0, 0};
};

}  // namespace tessera::inspector
