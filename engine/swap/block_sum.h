// SPDX-License-Identifier: Apache-2.0
// A checksum that keeps up with a drive: eight lanes of multiplications that do not wait for each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tessera {

/// 64 bits of `data`; changes with any of its bits and with its length.
inline std::uint64_t block_sum(std::span<const std::byte> data) {
  constexpr std::uint64_t prime = 0x9E3779B97F4A7C15ULL;
  constexpr std::size_t lanes = 8;
  std::uint64_t sums[lanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  auto mix = [](std::uint64_t sum, std::uint64_t word) {
    sum = (sum ^ word) * prime;
    return sum ^ (sum >> 32);
  };
  std::size_t k = 0;
  for (; k + sizeof(sums) <= data.size(); k += sizeof(sums)) {
    std::uint64_t words[lanes];
    std::memcpy(words, data.data() + k, sizeof(words));
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] = mix(sums[lane], words[lane]);
  }
  for (; k < data.size(); ++k) {
    sums[k % lanes] = mix(sums[k % lanes], static_cast<std::uint64_t>(data[k]) + 256);
  }
  std::uint64_t all = data.size();
  for (const std::uint64_t sum : sums) all = mix(all, sum);
  return all;
}

}  // namespace tessera
