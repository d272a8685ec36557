// SPDX-License-Identifier: Apache-2.0
#include "engine/numbers/wide.h"

namespace tessera::kernels {

#if defined(__x86_64__)
InstructionSet instruction_set() {
  static const InstructionSet best = [] {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
      return InstructionSet::avx512;
    }
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 ? InstructionSet::avx2 : InstructionSet::any;
  }();
  return best;
}
#endif

}  // namespace tessera::kernels
