// SPDX-License-Identifier: Apache-2.0
// The colours and marks of operations that are in view, named in a strip below the timeline.
#pragma once

#include <array>
#include <bitset>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// The marks that were drawn; a legend names these and no others.
struct SeenMarks {
  std::array<bool, op_class_count> classes{};
  std::bitset<memory_class_count> memory;  // in strips below lanes
  bool capacity = false;                   // of the device, in these
  bool waits = false;                      // hatched or faint: a collective waits for other ranks
  bool exposed = false;                    // a line at a bar's foot: no computation hides it
  bool path = false;                       // the critical path
  bool prefetches = false;                 // when a prefetch was issued and first used
  bool late_prefetches = false;            // likewise, and compute stood still for it
  bool merged = false;                     // fainter than full: busy for a part of the pixel's time
};

/// px that the legend takes in a panel `width` px wide: as many lines as its entries need.
float operation_legend_height(const Surface& ui, const TraceModel& model, const SeenMarks& seen,
                              float width);
void draw_operation_legend(const Surface& ui, const TraceModel& model, ViewState& state,
                           const SeenMarks& seen, const Box& box);

}  // namespace tessera::inspector
