// SPDX-License-Identifier: Apache-2.0
// The entry point of the module: it fills the tables from the real libraries.
#include "engine/backends/cuda/cuda_module.h"

#include "engine/backends/cuda/module/first_launches.h"
#include "engine/backends/cuda/module/kernel_math.h"
#include "engine/backends/cuda/module/tables.h"

namespace tessera {

static std::unique_ptr<DeviceMath> real_math(const MathOptions& options) {
  return device::make_kernel_math(device::make_products(options.tf32), options.hopper_attention);
}

}  // namespace tessera

extern "C" const tessera::CudaModule* tessera_cuda_module() {
  static const tessera::CudaModule module{
      tessera::cuda_module_version, tessera::real_cuda(),  tessera::real_nccl(),
      tessera::real_kernels(),      tessera::real_math,    tessera::device::cublas_version,
      tessera::find_cufile,         tessera::start_cufile, tessera::device::set_before_loads};
  return &module;
}
