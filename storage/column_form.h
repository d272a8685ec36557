// SPDX-License-Identifier: Apache-2.0
// The forms of a column, as encoding.h describes them, for who writes and who reads them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::storage {

enum Form : std::uint8_t {
  form_varints,
  form_constant,
  form_packed,
  form_sparse,
  form_periodic,
  form_offset
};

/// Bytes of `count` numbers of so many bits.
constexpr std::size_t packed_size(std::size_t count, std::size_t width) {
  return (count * width + 7) / 8;
}

}  // namespace tessera::storage
