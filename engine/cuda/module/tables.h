// SPDX-License-Identifier: Apache-2.0
// The parts of this module.
#pragma once

#include "engine/cuda/cuda_module.h"

namespace tessera {

CudaApi real_cuda();
NcclApi real_nccl();
KernelApi real_kernels();

}  // namespace tessera
