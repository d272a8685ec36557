// SPDX-License-Identifier: Apache-2.0
// What the program finds when it opens this module: the tables, filled from the real libraries.
#include "engine/cuda/cuda_module.h"

#include "engine/cuda/module/tables.h"

extern "C" const tessera::CudaModule* tessera_cuda_module() {
  static const tessera::CudaModule module{tessera::cuda_module_version, tessera::real_cuda(),
                                          tessera::real_nccl(), tessera::real_kernels()};
  return &module;
}
