// SPDX-License-Identifier: Apache-2.0
// The nonlinear parts of MLPs. Forward also makes the derivative, so that backward multiplies.
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// GELU in the tanh form. y = gelu(x); x becomes gelu'(x).
void gelu(Array x, Array y, std::int64_t numel, int threads);

/// y = silu(gate) * up. gate becomes silu(gate); up becomes up * silu'(gate).
void swiglu(Array gate, Array up, Array y, std::int64_t numel, int threads);

/// to = a * b.
void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, int threads);

}  // namespace tessera::kernels
