// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/parallel.h"

#include <algorithm>
#include <thread>

#include "engine/kernels/wide.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace tessera::kernels {
namespace {

thread_local int limit = 1;

}  // namespace

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

void parallel(int threads, std::int64_t count, std::int64_t grain,
              const std::function<void(int, std::int64_t, std::int64_t)>& part) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, std::max(threads, 1));
  if (parts == 1) return part(0, 0, count);
  const int workers = static_cast<int>(parts);
#if defined(_OPENMP)  // else the same parts, one by one
#pragma omp parallel for num_threads(workers) schedule(static, 1)
#endif
  for (int k = 0; k < workers; ++k) part(k, count * k / workers, count * (k + 1) / workers);
}

int threads_limit() { return limit; }

#if defined(_OPENMP)
void limit_threads(int threads) {
  limit = threads;
  omp_set_num_threads(threads);
}

int available_threads() { return std::max(omp_get_num_procs(), 1); }
#else
void limit_threads(int threads) { limit = threads; }

int available_threads() {
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}
#endif

}  // namespace tessera::kernels
