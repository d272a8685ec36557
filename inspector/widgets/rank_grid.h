// SPDX-License-Identifier: Apache-2.0
// All ranks of one step as a small grid, a row of nodes by the ranks in them, with the legend of
// its colours.
#pragma once

#include <string>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

inline constexpr float rank_cell_px = 40;  // at most

/// Draws `metric` of `step` at the cursor of the current ImGui window, coloured by the scale of all
/// steps, as long as that is not known by that of this one. Of very many ranks whole nodes share a
/// cell, which shows the rank furthest off. A click opens a recorded rank. Returns a sentence about
/// the highest rank, or "".
std::string draw_rank_grid(Surface& ui, TraceModel& model, ViewState& state,
                           analysis::Metric metric, std::int32_t step, float width,
                           float most_cell_px = rank_cell_px);

/// px that it takes with its heading and its scale.
float rank_grid_height(const Surface& ui, const TraceModel& model, float width,
                       float most_cell_px = rank_cell_px);

/// The colours of `scale` from the lowest to the highest value that occurs, named below.
void draw_scale(const Surface& ui, ViewState& state, analysis::Metric metric,
                const analysis::MetricScale& scale, float width);

}  // namespace tessera::inspector
