// SPDX-License-Identifier: Apache-2.0
// The right column: what is known about the selected span, or the run when nothing is selected.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

void draw_details(Surface& ui, TraceModel& model, ViewState& state, const Box& box);

}  // namespace tessera::inspector
