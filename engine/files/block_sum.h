// SPDX-License-Identifier: Apache-2.0
// A checksum whose words are mixed each by itself, with their place, and added: any number of
// threads may share the work in any order, so that a GPU gives the same 64 bits as a CPU.
//
// The mixing is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tessera {

/// The summand of the word at `place`, counted from 1; the number of bytes is the word at place 0.
constexpr std::uint64_t mixed_word(std::uint64_t word, std::uint64_t place) {
  std::uint64_t x = word + place * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// The number of 8-byte words; a last word of fewer bytes is filled up with zeros.
constexpr std::size_t words_of(std::size_t bytes) { return (bytes + 7) / 8; }

/// The checksum of `data`, which changes with any of its bits and with its length.
inline std::uint64_t block_sum(std::span<const std::byte> data) {
  std::uint64_t sum = mixed_word(data.size(), 0);
  for (std::size_t k = 0; k < data.size() / 8; ++k) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data() + 8 * k, 8);
    sum += mixed_word(word, k + 1);
  }
  const std::size_t tail = data.size() % 8;
  if (tail == 0) return sum;
  std::uint64_t word = 0;
  std::memcpy(&word, data.data() + data.size() - tail, tail);
  return sum + mixed_word(word, words_of(data.size()));
}

}  // namespace tessera
