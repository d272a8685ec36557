// SPDX-License-Identifier: Apache-2.0
// Memory of the opened rank by class, stacked, on the same time axis as its operations.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// The stack fills `box` from the gutter on; the legend has `legend` to itself.
void draw_memory_panel(Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                       const Box& legend);

}  // namespace tessera::inspector
