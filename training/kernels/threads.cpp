// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/threads.h"

#include <algorithm>
#include <thread>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace tessera::kernels {

#if defined(_OPENMP)
namespace {

void run_by_openmp(int workers, std::int64_t count, const Part& part) {
#pragma omp parallel for num_threads(workers) schedule(static, 1)
  for (int k = 0; k < workers; ++k) run_part(k, workers, count, part);
}

}  // namespace

void limit_threads(int threads) {
  use_workers(threads, run_by_openmp);
  omp_set_num_threads(threads);
}

int available_threads() { return std::max(omp_get_num_procs(), 1); }
#else
void limit_threads(int threads) { use_workers(threads, nullptr); }

int available_threads() {
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}
#endif

}  // namespace tessera::kernels
