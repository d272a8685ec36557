// SPDX-License-Identifier: Apache-2.0
// The 64-bit hash of chunks and of a trace's content. Part of the format: never change it.
//
// The idea: every step is a bijection of the state for a fixed input and of the input for a fixed
// state, so a change of a single word always changes the result. It finds damage, not forgery.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tessera::storage {

class Checksum {
 public:
  /// state = xorshift((state ^ word) * odd constant); constants of splitmix64 (Steele et al. 2014).
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0xBF58476D1CE4E5B9ULL;
    state_ ^= state_ >> 29;
  }
  void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }

  /// The length, then little-endian words of 8 bytes, the last one filled up with zeros.
  void add(std::span<const std::uint8_t> bytes) {
    add(static_cast<std::uint64_t>(bytes.size()));
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) add(little_endian(&bytes[i], 8));
    if (i < bytes.size()) add(little_endian(&bytes[i], bytes.size() - i));
  }
  void add(std::string_view text) {
    add(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }

  std::uint64_t value() const {
    const std::uint64_t z = state_ * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  static std::uint64_t little_endian(const std::uint8_t* bytes, std::size_t count) {
    std::uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&word, bytes, count);
    } else {
      for (std::size_t i = 0; i < count; ++i) word |= std::uint64_t{bytes[i]} << (8 * i);
    }
    return word;
  }

  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

}  // namespace tessera::storage
