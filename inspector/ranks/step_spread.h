// SPDX-License-Identifier: Apache-2.0
// A metric over the steps: the lowest, the median and the highest rank of each.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// The height from which on it is drawn.
float least_step_spread(const Theme& theme);

/// Fills `box`; `axis` px on the left are for the marks, so that steps stand below those of the map
/// above. Values that are alike are shown by a scale that does not begin at zero.
void draw_step_spread(const Surface& ui, const analysis::MetricFigures& figures, float axis,
                      const Box& box);

}  // namespace tessera::inspector
