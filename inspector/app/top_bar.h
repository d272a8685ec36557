// SPDX-License-Identifier: Apache-2.0
// The line above all panels: what is open, a tab for each panel, and a few buttons. Tabs that have
// no room side by side are a list behind one button.
#pragma once

#include <functional>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// `draw_live(right, top)` draws what belongs before the tabs and returns its left edge.
void draw_top_bar(Surface& ui, const TraceModel& model, ViewState& state, const Box& box,
                  bool two_panels, const std::function<float(float, float)>& draw_live);

}  // namespace tessera::inspector
