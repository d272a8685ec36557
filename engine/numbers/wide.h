// SPDX-License-Identifier: Apache-2.0
// Runs a loop with the widest vector instructions of the machine.
//
// The idea: the compiler makes a loop's body three times, for AVX-512, AVX2 and what every machine
// has. All give the same bits: nothing is contracted (-ffp-contract=off), and sums have a fixed
// number of lanes.
//
//   wide([=]() TESSERA_INLINE { for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]); });
#pragma once

#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// Partial sums of a reduction, which are added in pairs: the same order everywhere.
inline constexpr int lanes = 16;

TESSERA_INLINE inline float total_of(float (&sum)[lanes]) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) sum[k] += sum[k + half];
  }
  return sum[0];
}

#if defined(__x86_64__)
enum class InstructionSet { any, avx2, avx512 };
InstructionSet instruction_set();

template <class Loop>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma"), noinline)) void
wide_512(const Loop& loop) {
  loop();
}
template <class Loop>
__attribute__((target("avx2,fma"), noinline)) void wide_256(const Loop& loop) {
  loop();
}

template <class Loop>
void wide(const Loop& loop) {
  switch (instruction_set()) {
    case InstructionSet::avx512: return wide_512(loop);
    case InstructionSet::avx2: return wide_256(loop);
    case InstructionSet::any: break;
  }
  loop();
}
#else
template <class Loop>
void wide(const Loop& loop) {
  loop();
}
#endif

}  // namespace tessera::kernels
