// SPDX-License-Identifier: Apache-2.0
// Threads of one rank. What they compute does not depend on how many there are: each element is one
// thread's.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::kernels {

/// Calls part(thread, begin, end) for parts of [0, count) that together are all of it, from at most
/// `threads` threads; parts of less than `grain` are not worth one.
void parallel(int threads, std::int64_t count, std::int64_t grain,
              const std::function<void(int, std::int64_t, std::int64_t)>& part);

/// How many threads the matrix library may use when it is called from this thread, and kernels that
/// are not told.
void limit_threads(int threads);
/// What this thread's last `limit_threads` said, or 1.
int threads_limit();

/// Cores that this process may run on, at least 1.
int available_threads();

}  // namespace tessera::kernels
