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
  std::string label;
};

struct Ruler {
  std::string base;  // what the labels are offsets to: "700.2000 ms"; "": they are absolute
  std::vector<Tick> ticks;
};

/// Labels are absolute ("700.2 ms") while that is short, otherwise offsets ("+0.2 µs") to `base`,
/// which is drawn beside the ruler, so that a time can always be read. `label_px`: the widest
/// label's width; no ticks if not even one has room.
Ruler ruler(const TimeView& view, float width_px, float label_px);

/// The smallest of 1, 2, 5, 10, 20, ... things of `apart_px` each that lie at least `wanted_px`
/// apart: every how many of them has room for a label. 1 if `apart_px` is not positive.
std::int64_t every_nth(double apart_px, double wanted_px);

}  // namespace tessera::inspector
