// SPDX-License-Identifier: Apache-2.0
// Lines from what the selected operation waited for to it, and from it to what waited for it.
#pragma once

#include <functional>
#include <optional>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// The middle of a lane in px; none: it is not in view.
using LaneMiddle = std::function<std::optional<float>(Rank, std::int32_t stream)>;

/// Draws those of the selection into `box`, which shares the axis of time.
void draw_flow_lines(const Surface& ui, TraceModel& model, ViewState& state, const Box& box,
                     const LaneMiddle& middle_of);

}  // namespace tessera::inspector
