// SPDX-License-Identifier: Apache-2.0
// The nonlinear parts of MLPs. Forward also makes the derivative, so that backward multiplies.
#pragma once

#include "tessera/activation.h"
#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// y = f(x); x becomes f'(x), f being `kind`.
void activate(Activation kind, Array x, Array y, std::int64_t numel, int threads);

/// y = f(gate) * up. gate becomes f(gate); up becomes up * f'(gate).
void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel,
                    int threads);

/// to = a * b.
void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, int threads);

}  // namespace tessera::kernels
