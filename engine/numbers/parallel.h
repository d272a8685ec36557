// SPDX-License-Identifier: Apache-2.0
// Threads of one rank. Results do not depend on the number of threads: each element is computed by
// one thread.
//
// The idea: the core has no threads of its own. A library that has some (training, OpenMP's) lends
// them to the calling thread with `use_workers`; without any, the same parts run one by one.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::kernels {

/// part(thread, begin, end)
using Part = std::function<void(int, std::int64_t, std::int64_t)>;

/// Runs the parts of [0, count), `workers` of them, each whole, in any order, and returns when all
/// are done.
using RunParts = void (*)(int workers, std::int64_t count, const Part& part);

/// Part k of `workers` equal parts of [0, count).
void run_part(int k, int workers, std::int64_t count, const Part& part);

/// Lends workers to the calling thread: its calls of `parallel` from now on use at most `limit`
/// threads, which `run` runs. Null: parts run one by one.
void use_workers(int limit, RunParts run);

/// Splits [0, count) into parts of at least `grain` elements and calls part(thread, begin, end) for
/// each, from at most `threads` threads. Returns when all are done.
void parallel(int threads, std::int64_t count, std::int64_t grain, const Part& part);

/// The limit of this thread's last `use_workers`, or 1.
int threads_limit();

}  // namespace tessera::kernels
