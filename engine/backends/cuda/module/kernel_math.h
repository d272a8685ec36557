// SPDX-License-Identifier: Apache-2.0
// The mathematics of language models by this module's kernels, and by a library's products.
#pragma once

#include <memory>

#include "engine/backends/cuda/device_math.h"
#include "engine/backends/cuda/module/products.h"

namespace tessera::device {

/// Null without products. `hopper_attention`: as MathOptions.
std::unique_ptr<DeviceMath> make_kernel_math(std::unique_ptr<Products> products,
                                             bool hopper_attention = false);

}  // namespace tessera::device
