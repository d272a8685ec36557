// SPDX-License-Identifier: Apache-2.0
// The marks of fully_shard beyond those of all schemes.
#pragma once

#include "tessera/op.h"

namespace tessera::marks {

/// FSDP's callback at the end of backward, which torch queues on the root.
inline constexpr Mark::Kind backward_finishing = "root finishes backward";

}  // namespace tessera::marks
