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
// A column is one byte, its form, and then
//   0: `n` varints;
//   1: one varint, which stands for all `n`;
//   2: blocks of 128 numbers, the last may be shorter: a byte, the width in bits, and the zigzag
//      numbers of that width, the lowest bits first;
//   3: for what is mostly 0, how many are not as a varint, and for each of those two: the zeros
//      before it, and itself;
//   4: a varint p, and a column of another form: the first p numbers, and what others differ by
//      from the number p before, as steps of a training repeat one another;
//   5: as 2, but each block begins with a varint, its least number, and its numbers are what they
//      are above that.
// A varint is a zigzag number (0, -1, 1, -2, ... = 0, 1, 2, 3, ...) in groups of 7 bits, lowest
// first, the high bit set on all bytes but the last; at most 10 bytes. Of the forms the shortest is
// written, of equal ones the first.
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

/// Appends `column`, with less than a byte for each number only where that `may_be_short`.
/// REQUIRES: not empty.
void append_column(std::span<const std::int64_t> column, std::vector<std::uint8_t>& bytes,
                   bool may_be_short = true);

/// Appends `a` or `b`, whichever is shorter, of equally long ones `a`; true: `b`.
bool append_shorter(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                    std::vector<std::uint8_t>& bytes);

/// Reads columns one after the other. Never reads outside of `bytes`, whatever is in it.
class ColumnReader {
 public:
  explicit ColumnReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  /// Fills `column`; false if the bytes are not a column of that length.
  bool read(std::span<std::int64_t> column);
  bool at_end() const { return rest_.empty(); }

 private:
  bool read_varint(std::int64_t& value);
  bool read_varints(std::span<std::int64_t> column);
  bool read_packed(std::span<std::int64_t> block);
  bool read_offset(std::span<std::int64_t> block);
  bool read_bits(std::span<std::int64_t> block);
  bool read_sparse(std::span<std::int64_t> column);
  bool read_form(std::uint8_t form, std::span<std::int64_t> column);

  std::span<const std::uint8_t> rest_;
};

}  // namespace tessera::storage
