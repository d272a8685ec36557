// SPDX-License-Identifier: Apache-2.0
// Notes as flags at the ruler, with a line through everything below that shares the axis of time.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

/// Draws the notes in view into `box`, the ruler at its top included. A click on a flag, or a note
/// that is new, opens a line to write into.
void draw_note_flags(Surface& ui, ViewState& state, const Box& box);

}  // namespace tessera::inspector
