// SPDX-License-Identifier: Apache-2.0
// The alignment that direct I/O needs.
#pragma once

#include <cstddef>

namespace tessera {

/// O_DIRECT requires addresses, offsets and sizes to be multiples of this many bytes.
inline constexpr std::size_t file_alignment = 4096;

constexpr std::size_t file_aligned(std::size_t n) {
  return (n + file_alignment - 1) / file_alignment * file_alignment;
}

}  // namespace tessera
