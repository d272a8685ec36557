// SPDX-License-Identifier: Apache-2.0
// The mathematics of language models on a device: cuBLASLt and the project's kernels in the module,
// their twins on the CPU in tests.
#pragma once

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/math.h"

namespace tessera {

class DeviceMath : public kernels::Math {
 public:
  struct Failure {
    int code = cuda_success;  // of CUDA
    const char* call = "";
  };
  /// Calls are queued on `stream` from now on.
  virtual void use(CudaStream stream) = 0;
  /// The first call since `use` that failed; what came after it was not queued.
  virtual Failure failure() const = 0;
};

}  // namespace tessera
