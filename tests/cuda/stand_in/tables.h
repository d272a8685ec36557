// SPDX-License-Identifier: Apache-2.0
// The stand-in's functions as the carrier's tables.
#pragma once

#include "engine/cuda/cuda_module.h"

namespace tessera::test {

CudaApi cuda_table();
KernelApi kernel_table();
NcclApi nccl_table();
std::unique_ptr<DeviceMath> make_twin_math();

}  // namespace tessera::test
