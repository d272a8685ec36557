// SPDX-License-Identifier: Apache-2.0
// Assertions for programmer errors. They stay on in release builds: a wrong belief about sharded
// state costs more than the comparison.
//
//   TESSERA_ASSERT(shard.value > 0, "an empty unit has nothing to gather");
#pragma once

namespace tessera {

/// Writes `condition`, `message` and the place to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file,
                                   int line);

}  // namespace tessera

#define TESSERA_ASSERT(condition, message) \
  ((condition) ? static_cast<void>(0)      \
               : ::tessera::assertion_failed(#condition, message, __FILE__, __LINE__))
