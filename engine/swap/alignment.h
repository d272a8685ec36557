// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tessera {

/// What O_DIRECT asks of memory, offset and size.
inline constexpr std::size_t file_alignment = 4096;

constexpr std::size_t file_aligned(std::size_t n) {
  return (n + file_alignment - 1) / file_alignment * file_alignment;
}

}  // namespace tessera
