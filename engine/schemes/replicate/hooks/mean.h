// SPDX-License-Identifier: Apache-2.0
// The step that every hook ends in.
#pragma once

#include "tessera/comm_hook.h"

namespace tessera {

/// Divides, then sums over ranks, in place.
Result<EventId> reduce_to_mean(const View& values, HookContext& context);

}  // namespace tessera
