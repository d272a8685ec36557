// SPDX-License-Identifier: Apache-2.0
// The run in a dozen numbers.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

enum class RunFields : std::uint8_t { brief, all };

/// A heading and fields of the group "run" in the current ImGui window; what is unknown is left
/// out.
void draw_run_fields(const Surface& ui, const TraceModel& model, ViewState& state, RunFields which);

}  // namespace tessera::inspector
