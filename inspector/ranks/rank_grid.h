// SPDX-License-Identifier: Apache-2.0
// All ranks of one step as a small grid, a row of nodes by the ranks in them.
#pragma once

#include <string>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Draws at the cursor of the current ImGui window, coloured by compute time in the last step; a
/// click opens a recorded rank. Returns a sentence about the slowest rank, or "".
std::string draw_rank_grid(Surface& ui, TraceModel& model, ViewState& state, float width);

}  // namespace tessera::inspector
