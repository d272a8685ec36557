// SPDX-License-Identifier: Apache-2.0
// The room that names of lanes have left of the time axis.
#pragma once

#include "inspector/model/trace_model.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// As much as the longest name of a rank's lanes and `beside_px` need, px at scale 1; a narrow
/// panel gives its room to time.
float gutter_of(const Surface& ui, TraceModel& model, Rank rank, float width, float beside_px);

}  // namespace tessera::inspector
