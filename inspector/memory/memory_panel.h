// SPDX-License-Identifier: Apache-2.0
// Memory of the opened rank by class, stacked, on the same time axis as its operations.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// The stack fills `box` from the gutter on.
void draw_memory_panel(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
/// The classes at the cursor or at the peak of the view; what has no room is named as a sum.
void draw_memory_legend(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);

}  // namespace tessera::inspector
