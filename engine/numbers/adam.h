// SPDX-License-Identifier: Apache-2.0
// One step of AdamW on a CPU.
#pragma once

#include "tessera/kernels.h"
#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// As Kernels::adam, on at most `threads` threads. REQUIRES: is_computed of the dtypes.
void adam(const AdamNumbers& numbers, ConstArray gradient, Array values, Array exp_avg,
          Array exp_avg_sq, std::int64_t numel, int threads);

/// As Kernels::adam_in_halves. REQUIRES: is_computed of the gradient's dtype.
void adam_in_halves(const AdamNumbers& numbers, const RandomRounding& rounding, ConstArray gradient,
                    float* values, BFloat16* exp_avg, BFloat16* exp_avg_sq, std::int64_t numel,
                    int threads);

}  // namespace tessera::kernels
