// SPDX-License-Identifier: Apache-2.0
// The loops over all numbers of a column, with the widest vector instructions of the machine.
//
//   std::array<BlockFacts, 2> facts;
//   find_facts(column_of_200, facts.data());   // of the first 128 numbers, and of the other 72
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::storage {

/// Forms of columns that have widths have one for so many numbers.
inline constexpr std::size_t block_size = 128;

/// What the forms of a block take follows from these.
struct BlockFacts {
  std::uint64_t all = 0;             // the bits of all zigzag numbers
  std::int64_t least = 0, most = 0;  // of the numbers
  std::int64_t others = 0;           // how many are not 0
};

/// Of each block of `column`, one after the other.
void find_facts(std::span<const std::int64_t> column, BlockFacts* facts);

/// What the numbers of a block take as varints; `all`: the bits of their zigzag numbers.
std::size_t varints_size(std::span<const std::int64_t> block, std::uint64_t all);

/// Zigzag numbers of `width` bits one behind the other, the lowest first, in whole bytes; returns
/// the end. REQUIRES: up to block_size numbers, room for 16 bytes more.
std::uint8_t* put_zigzag(std::span<const std::int64_t> block, std::size_t width, std::uint8_t* out);
/// The same of what numbers are above `least`.
std::uint8_t* put_above(std::span<const std::int64_t> block, std::int64_t least, std::size_t width,
                        std::uint8_t* out);

/// What they have written: numbers of `width` bits from `bytes` on, which reach 16 bytes further.
/// REQUIRES: a width of 64 at most.
void take_bits(const std::uint8_t* bytes, std::size_t width, std::span<std::int64_t> block);

/// The last place of `value`; column.size(): it is not there.
std::size_t find_last(std::span<const std::int64_t> column, std::int64_t value);
/// How many numbers are as the one `distance` before.
std::size_t count_repeated(std::span<const std::int64_t> column, std::size_t distance);

/// REQUIRES for all below: columns of one length, not empty.
std::int64_t least_of(std::span<const std::int64_t> column);
std::int64_t most_of(std::span<const std::int64_t> column);
/// a - b modulo 2^64; `out` may be one of them.
void subtract(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
              std::span<std::int64_t> out);
/// a - b where `first` is not 0, else a - c.
void subtract_either(std::span<const std::int64_t> a, std::span<const std::int64_t> first,
                     std::span<const std::int64_t> b, std::span<const std::int64_t> c,
                     std::span<std::int64_t> out);
/// Whether `a` is `b` with `shift` added to each number.
bool equal_shifted(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
                   std::int32_t shift);

}  // namespace tessera::storage
