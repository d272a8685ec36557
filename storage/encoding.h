// SPDX-License-Identifier: Apache-2.0
// Packs a column of 64-bit numbers into bytes.
//
// The idea: callers subtract what they can predict, so most numbers are small; small numbers take
// one byte. All arithmetic is modulo 2^64, so every int64 round-trips. A column of one repeated
// value is kept once.
//
//   std::vector<std::uint8_t> bytes;
//   append_column(differences, bytes);
//   ColumnReader reader(bytes);
//   std::vector<std::int64_t> back(n);
//   if (!reader.read(back) || !reader.at_end()) { /* damaged */ }
//
// A column is: one byte, 0 = `n` varints follow, 1 = one varint follows that stands for all `n`.
// A varint is a zigzag number (0, -1, 1, -2, ... = 0, 1, 2, 3, ...) in groups of 7 bits, lowest
// first, the high bit set on all bytes but the last; at most 10 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::storage {

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

/// a - b and a + b modulo 2^64.
constexpr std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Appends `column`; one value for all of it only where that `may_repeat`. REQUIRES: not empty.
void append_column(std::span<const std::int64_t> column, std::vector<std::uint8_t>& bytes,
                   bool may_repeat = true);

/// Reads columns one after the other. Never reads outside of `bytes`, whatever is in it.
class ColumnReader {
 public:
  explicit ColumnReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  /// Fills `column`; false if the bytes are not a column of that length.
  bool read(std::span<std::int64_t> column);
  bool at_end() const { return rest_.empty(); }

 private:
  bool read_varint(std::int64_t& value);

  std::span<const std::uint8_t> rest_;
};

}  // namespace tessera::storage
