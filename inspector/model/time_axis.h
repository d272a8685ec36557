// SPDX-License-Identifier: Apache-2.0
// Time on a horizontal stretch of pixels: zoom, pan and a ruler whose labels never touch.
#pragma once

#include <string>
#include <vector>

#include "tessera/types.h"

namespace tessera::inspector {

/// The visible range. At least 10 ns and never far outside of [0, limit].
class TimeView {
 public:
  TimeView(Time from, Time to, Time limit);

  Time from() const { return from_; }
  Time to() const { return to_; }
  /// REQUIRES, as all that take a width: width > 0.
  double ns_per_px(float width) const { return static_cast<double>(to_ - from_) / width; }
  float x_of(Time time, float left, float width) const;
  Time time_at(float x, float left, float width) const;

  void show(Time from, Time to);
  /// factor > 1 zooms in; the time under `anchor` (0 left .. 1 right) stays.
  void zoom(double factor, double anchor);
  /// Moves by this share of the width; positive shows later times.
  void pan(double share);

 private:
  Time from_, to_, limit_;
};

struct Tick {
  Time time;
  std::string label;  // "" for minor ticks
};

/// Ticks of a ruler: the first label is absolute ("700.2 ms"), the others are too if that is short,
/// otherwise offsets to it ("+0.2 ms"). `label_px`: the widest label's width; none if not even one
/// has room.
std::vector<Tick> ruler(const TimeView& view, float width_px, float label_px);

}  // namespace tessera::inspector
