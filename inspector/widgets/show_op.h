// SPDX-License-Identifier: Apache-2.0
// The way from wherever an operation is named to where it is in the timeline.
#pragma once

#include "inspector/model/view_state.h"

namespace tessera::inspector {

/// Selects the operation on `rank`, with as much around it as shows where it is; opens the rank
/// alone where it has no span.
void show_op(TraceModel& model, ViewState& state, Rank rank, std::int32_t op);

}  // namespace tessera::inspector
