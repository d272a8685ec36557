// SPDX-License-Identifier: Apache-2.0
// The critical path as a line through the lanes of the timeline.
#pragma once

#include <functional>
#include <optional>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Where the line runs on a lane; none: the rank has no place in view or out of it.
using PathHeight = std::function<std::optional<float>(Rank rank, std::int32_t stream)>;

/// Draws the path of the step in the middle of the view within `box`. Parts on which the host was
/// late, or a rank that was not recorded, are dashed. False: there is none.
bool draw_path_line(const Surface& ui, TraceModel& model, const ViewState& state, const Box& box,
                    const PathHeight& height_of);

}  // namespace tessera::inspector
