// SPDX-License-Identifier: Apache-2.0
// Sizes of collectives by the shapes of their inputs, where record_param_comms does not tell them.
#pragma once

#include <string_view>

#include "exchange/formats/kineto_events.h"

namespace tessera::exchange {

/// Of an event "c10d::..." or "gloo:...", with "Input Dims" and "Input type" as JSON: output before
/// input; what has no list of inputs works in place. gloo's own events have the input alone.
void add_shapes(std::string_view event, std::string_view dims, std::string_view types,
                KinetoMessage& message);

}  // namespace tessera::exchange
