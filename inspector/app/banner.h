// SPDX-License-Identifier: Apache-2.0
// A strip above every panel while something is wrong: what the run reported, what cannot be read.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// px that the strip takes; 0 while nothing is wrong.
float banner_height(const Surface& ui, const TraceModel& model);
/// The first problem, and how many there are. A click shows the moment and the rank of the first.
void draw_banner(const Surface& ui, TraceModel& model, ViewState& state, const Box& box);

/// Opens the timeline at `problem`, with what led to it in view.
void show_problem(TraceModel& model, ViewState& state, const Problem& problem);

}  // namespace tessera::inspector
