// SPDX-License-Identifier: Apache-2.0
// The head of everything that shares a time axis: the run as a minimap, and a ruler; and what goes
// through all parts below it: grid lines, begins of steps, moments at which something went wrong.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// px that minimap and ruler take.
float time_header_height(const Surface& ui);
/// Draws them at the top of `box`; a press on the minimap moves the view there.
void draw_time_header(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
/// Lines at the ruler's ticks and at steps' begins in `box`, and the ground of an empty page before
/// the run's begin and after its end. To be drawn first.
void draw_time_grid(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box);
/// The range that is marked, with its length. To be drawn last.
void draw_measured(const Surface& ui, ViewState& state, const Box& box);
/// The moments of problems, over what is in `box`.
void draw_problem_marks(const Surface& ui, const TraceModel& model, const ViewState& state,
                        const Box& box);

}  // namespace tessera::inspector
