// SPDX-License-Identifier: Apache-2.0
// The tests of kernels on a GPU, through the module that lies beside the program.
#include "tests/backends/cuda/device/device.h"

namespace tessera::test {

const CudaModule& device_module() {
  const CudaModule* const module = require_value(open_cuda_module(""));
  require_ok(check_cuda(*module));
  return *module;
}

}  // namespace tessera::test
