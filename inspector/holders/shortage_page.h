// SPDX-License-Identifier: Apache-2.0
// Why a request found no room: figures, what would have fitted, and what lay where.
#pragma once

#include "inspector/widgets/panel.h"

namespace tessera::inspector {

/// Draws from the top of `box`, and returns where it ends.
float draw_shortage(const Surface& ui, TraceModel& model, ViewState& state,
                    const storage::MemoryShortageRow& shortage, const Box& box);

}  // namespace tessera::inspector
