// SPDX-License-Identifier: Apache-2.0
// The tests of kernels on the stand-in: they test themselves.
#include "tests/backends/cuda/device/device.h"
#include "tests/backends/cuda/stand_in/stand_in.h"

namespace tessera::test {

const CudaModule& device_module() {
  static StandIn world({.device_bytes = std::size_t{128} << 20});
  static const CudaModule module = StandIn::module();
  return module;
}

}  // namespace tessera::test
