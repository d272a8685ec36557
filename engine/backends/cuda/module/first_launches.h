// SPDX-License-Identifier: Apache-2.0
// Which kernels of this module have been launched, and what is asked before others are.
#pragma once

#include "engine/backends/cuda/kernel_loads.h"

namespace tessera::device {

/// Of the calling thread.
void set_before_loads(const KernelLoads& asked);
/// Before a library launches what it has not launched before. An error code: it may not.
int before_load();
/// The same before this kernel is launched; 0 if it has been before.
int before_launch(const void* kernel);

}  // namespace tessera::device
