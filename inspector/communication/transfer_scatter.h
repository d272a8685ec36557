// SPDX-License-Identifier: Apache-2.0
// Collectives as points of size and rate.
#pragma once

#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "tessera/analysis/group_usage.h"

namespace tessera::inspector {

/// Fills `box`, if there is room; a click on a point opens that collective in the timeline.
void draw_transfer_scatter(const Surface& ui, TraceModel& model, ViewState& state,
                           const std::vector<analysis::TransferPoint>& points, const Box& box);

}  // namespace tessera::inspector
