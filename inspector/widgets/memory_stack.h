// SPDX-License-Identifier: Apache-2.0
// The memory of one rank by class, stacked, on the axis of time.
#pragma once

#include <bitset>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Bytes as heights.
struct MemoryScale {
  double top;  // bytes at the upper edge
  float y0, y1;
  float y_of(double bytes) const;
};

/// Of all that the rank ever holds; the capacity belongs on it when the run comes near.
MemoryScale memory_scale(const TraceModel& model, const MemoryPyramid& memory, float y0, float y1);
/// px of a column of such a plot: very wide ones have columns of several pixels.
float plot_column_px(float width);
/// How much of a frame such a plot may take.
struct MemoryDetail {
  float column_px;  // of time that is one rectangle at least
  bool hatched;     // strokes over what is reserved and not in use
};

/// Each column shows its highest moment. Returns the classes that were drawn.
std::bitset<memory_class_count> draw_memory_stack(const Surface& ui, const MemoryPyramid& memory,
                                                  const TimeView& time, Time run_end,
                                                  const MemoryScale& scale,
                                                  const TimeStretch& stretch, MemoryDetail detail);

}  // namespace tessera::inspector
