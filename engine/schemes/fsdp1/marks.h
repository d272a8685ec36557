// SPDX-License-Identifier: Apache-2.0
// The marks of FSDP1 beyond those of all schemes.
#pragma once

#include "tessera/op.h"

namespace tessera::marks {

/// The unit's storage for gathering exists and is empty.
inline constexpr Mark::Kind storage_prepared = "storage prepared";
/// The event that the limiter of all_gathers waits for.
inline constexpr Mark::Kind storage_freed = "storage freed";
inline constexpr Mark::Kind pre_backward = "backward begins";  // the unit's

}  // namespace tessera::marks
