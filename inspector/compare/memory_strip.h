// SPDX-License-Identifier: Apache-2.0
// Memory of the opened rank in both runs of a comparison, on the axis of its step.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "tessera/analysis/step_pairs.h"

namespace tessera::inspector {

/// Two outlines, and between them in colour who holds more. `box` has the gutter at its left, and
/// is filled as far as that helps.
/// Returns its lower edge, or the upper one where a run has no memory samples of the rank.
float draw_compared_memory(const Surface& ui, TraceModel& model, ViewState& state,
                           const analysis::StepPairs& pairs, const Box& box);

}  // namespace tessera::inspector
