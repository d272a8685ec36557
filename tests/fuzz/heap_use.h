// SPDX-License-Identifier: Apache-2.0
// How much memory a call takes at most, beyond what was taken before it.
#pragma once

#include <cstdint>

namespace tessera::test {

/// Forgets the most of before. Under AddressSanitizer every allocation is counted, else pages of
/// the process that were never there before.
void restart_heap_use();
/// Bytes since then, at most at one time.
std::int64_t most_heap_used();

/// Calls `say` when a sanitizer ends the program, before it does.
void say_at_death(void (*say)());

}  // namespace tessera::test
