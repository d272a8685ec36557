// SPDX-License-Identifier: Apache-2.0
// The parts of this module.
#pragma once

#include "engine/backends/cuda/cuda_module.h"

namespace tessera {

CudaApi real_cuda();
NcclApi real_nccl();
KernelApi real_kernels();
Result<std::string> find_cufile();
Result<CufileApi> start_cufile();

namespace device {
/// KernelApi::block_sums.
int block_sums(const void* data, std::size_t bytes, std::size_t block, std::uint64_t* sums,
               CudaStream stream);
}  // namespace device

}  // namespace tessera
