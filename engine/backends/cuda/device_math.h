// SPDX-License-Identifier: Apache-2.0
// The mathematics of language models on a device: cuBLASLt and the project's kernels in the module,
// their twins on the CPU in tests.
#pragma once

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/math.h"

namespace tessera {

/// How a device computes; each as CudaOptions says.
struct MathOptions {
  bool tf32 = false;
  bool hopper_attention = false;
  bool fp8 = false;  // products in fp8 are asked for
};

class DeviceMath : public kernels::Math {
 public:
  struct Failure {
    int code = cuda_success;  // CUDA's error code
    const char* call = "";
  };
  static constexpr int launches_max = 4;  // of a call: attention's gradient

  /// Sets the stream on which later calls are enqueued.
  virtual void use(CudaStream stream) = 0;
  /// The first call since `use` that failed; later ones were not enqueued.
  virtual Failure failure() const = 0;
  /// How many calls there have been since `use`.
  virtual int calls() const = 0;
};

}  // namespace tessera
