// SPDX-License-Identifier: Apache-2.0
#include "engine/numbers/parallel.h"

#include <algorithm>

namespace tessera::kernels {
namespace {

void one_by_one(int workers, std::int64_t count, const Part& part) {
  for (int k = 0; k < workers; ++k) run_part(k, workers, count, part);
}

thread_local int limit = 1;
thread_local RunParts run_parts = one_by_one;

}  // namespace

void run_part(int k, int workers, std::int64_t count, const Part& part) {
  part(k, count * k / workers, count * (k + 1) / workers);
}

void use_workers(int threads, RunParts run) {
  limit = threads;
  run_parts = run ? run : one_by_one;
}

void parallel(int threads, std::int64_t count, std::int64_t grain, const Part& part) {
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, std::max(threads, 1));
  if (parts == 1) return part(0, 0, count);
  run_parts(static_cast<int>(parts), count, part);
}

int threads_limit() { return limit; }

}  // namespace tessera::kernels
