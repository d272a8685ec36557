// SPDX-License-Identifier: Apache-2.0
#include "storage/column_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/numbers/wide.h"
#include "storage/encoding.h"

namespace tessera::storage {
namespace {

using kernels::wide;

TESSERA_INLINE inline BlockFacts facts_of(const std::int64_t* block, std::size_t n) {
  std::uint64_t all = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min(), others = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t value = block[i];
    all |= zigzag(value);
    least = value < least ? value : least;
    most = value > most ? value : most;
    others += value != 0 ? 1 : 0;
  }
  return {all, least, most, others};
}

void store(std::uint64_t word, std::uint8_t* out) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, &word, sizeof(word));
  } else {
    for (std::size_t i = 0; i < sizeof(word); ++i, word >>= 8) {
      out[i] = static_cast<std::uint8_t>(word);
    }
  }
}

std::uint64_t load(const std::uint8_t* bytes) {
  std::uint64_t word = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&word, bytes, sizeof(word));
  } else {
    for (std::size_t i = 0; i < sizeof(word); ++i) word |= std::uint64_t{bytes[i]} << (8 * i);
  }
  return word;
}

using Numbers = std::array<std::uint64_t, block_size + 1>;

/// Joins neighbours while two fit a word, so that few are left to be written one by one.
/// REQUIRES: numbers[n] is there.
TESSERA_INLINE inline void join_neighbours(std::uint64_t* numbers, std::size_t& n,
                                           std::size_t& width) {
  while (width > 0 && 2 * width <= 64 && n > 1) {
    numbers[n] = 0;
    n = (n + 1) / 2;
    for (std::size_t i = 0; i < n; ++i) {
      numbers[i] = numbers[2 * i] | numbers[2 * i + 1] << width;
    }
    width *= 2;
  }
}

std::uint8_t* put_joined(const Numbers& numbers, std::size_t n, std::size_t width,
                         std::uint8_t* out) {
  std::uint64_t held = 0;
  std::size_t bits = 0;
  for (std::size_t i = 0; i < n; ++i) {
    held |= numbers[i] << bits;
    bits += width;
    if (bits < 64) continue;
    store(held, out);
    out += 8;
    bits -= 64;
    held = bits == 0 ? 0 : numbers[i] >> (width - bits);
  }
  store(held, out);
  return out;
}

template <class F>
std::uint8_t* put_bits(std::span<const std::int64_t> block, std::size_t width, std::uint8_t* out,
                       F number_of) {
  Numbers numbers;
  std::size_t left = block.size(), joined = width;
  std::uint64_t* const to = numbers.data();
  std::size_t* const left_at = &left;
  std::size_t* const joined_at = &joined;
  wide([=]() TESSERA_INLINE {
    const std::size_t n = *left_at;
    for (std::size_t i = 0; i < n; ++i) to[i] = number_of(block[i]);
    join_neighbours(to, *left_at, *joined_at);
  });
  put_joined(numbers, left, joined, out);
  return out + (block.size() * width + 7) / 8;
}

}  // namespace

void find_facts(std::span<const std::int64_t> column, BlockFacts* facts) {
  wide([=]() TESSERA_INLINE {
    BlockFacts* to = facts;
    std::size_t at = 0;
    for (; at + block_size <= column.size(); at += block_size, ++to) {
      *to = facts_of(column.data() + at, block_size);
    }
    if (at < column.size()) *to = facts_of(column.data() + at, column.size() - at);
  });
}

std::size_t varints_size(std::span<const std::int64_t> block, std::uint64_t all) {
  std::size_t size = block.size();
  std::size_t* const sum = &size;
  wide([=]() TESSERA_INLINE {
    std::uint64_t more = 0;
    for (int shift = 7; shift < 64 && all >> shift != 0; shift += 7) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        more += zigzag(block[i]) >> shift != 0 ? 1 : 0;
      }
    }
    *sum += more;
  });
  return size;
}

std::uint8_t* put_zigzag(std::span<const std::int64_t> block, std::size_t width,
                         std::uint8_t* out) {
  return put_bits(block, width, out,
                  [](std::int64_t value) TESSERA_INLINE { return zigzag(value); });
}

std::uint8_t* put_above(std::span<const std::int64_t> block, std::int64_t least, std::size_t width,
                        std::uint8_t* out) {
  return put_bits(block, width, out, [=](std::int64_t value) TESSERA_INLINE {
    return static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(least);
  });
}

void take_bits(const std::uint8_t* bytes, std::size_t width, std::span<std::int64_t> block) {
  constexpr std::size_t of_one_word = 57;  // wherever in its first byte a number begins
  std::size_t bit = 0;
  if (width <= of_one_word) {
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    for (std::int64_t& number : block) {
      number = static_cast<std::int64_t>(load(bytes + bit / 8) >> (bit % 8) & mask);
      bit += width;
    }
    return;
  }
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  for (std::int64_t& number : block) {
    const std::size_t shift = bit % 8;
    std::uint64_t value = load(bytes + bit / 8) >> shift;
    if (shift + width > 64) value |= load(bytes + bit / 8 + 8) << (64 - shift);
    number = static_cast<std::int64_t>(value & mask);
    bit += width;
  }
}

std::size_t find_last(std::span<const std::int64_t> column, std::int64_t value) {
  constexpr std::size_t piece = 64;
  std::size_t end = column.size();
  std::size_t* const end_at = &end;
  // Down to a piece that has it, and then number by number.
  wide([=]() TESSERA_INLINE {
    std::size_t to = *end_at;
    for (; to >= piece; to -= piece) {
      const std::int64_t* const from = column.data() + to - piece;
      std::uint64_t found = 0;
      for (std::size_t i = 0; i < piece; ++i) found |= from[i] == value ? 1 : 0;
      if (found != 0) break;
    }
    *end_at = to;
  });
  while (end > 0 && column[end - 1] != value) --end;
  return end > 0 ? end - 1 : column.size();
}

std::size_t count_repeated(std::span<const std::int64_t> column, std::size_t distance) {
  std::uint64_t count = 0;
  std::uint64_t* const sum = &count;
  wide([=]() TESSERA_INLINE {
    std::uint64_t equal = 0;
    const std::int64_t* const now = column.data() + distance;
    const std::int64_t* const before = column.data();
    for (std::size_t i = 0; i < column.size() - distance; ++i) {
      equal += now[i] == before[i] ? 1 : 0;
    }
    *sum = equal;
  });
  return count;
}

std::int64_t least_of(std::span<const std::int64_t> column) {
  std::int64_t least = column[0];
  std::int64_t* const to = &least;
  wide([=]() TESSERA_INLINE {
    std::int64_t found = *to;
    for (std::size_t i = 0; i < column.size(); ++i) found = column[i] < found ? column[i] : found;
    *to = found;
  });
  return least;
}

std::int64_t most_of(std::span<const std::int64_t> column) {
  std::int64_t most = column[0];
  std::int64_t* const to = &most;
  wide([=]() TESSERA_INLINE {
    std::int64_t found = *to;
    for (std::size_t i = 0; i < column.size(); ++i) found = column[i] > found ? column[i] : found;
    *to = found;
  });
  return most;
}

void subtract(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
              std::span<std::int64_t> out) {
  wide([=]() TESSERA_INLINE {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = wrapping_difference(a[i], b[i]);
  });
}

void subtract_either(std::span<const std::int64_t> a, std::span<const std::int64_t> first,
                     std::span<const std::int64_t> b, std::span<const std::int64_t> c,
                     std::span<std::int64_t> out) {
  wide([=]() TESSERA_INLINE {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t left = b[i], right = c[i];
      out[i] = wrapping_difference(a[i], first[i] != 0 ? left : right);
    }
  });
}

bool equal_shifted(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
                   std::int32_t shift) {
  if (a.size() != b.size() || a.front() - shift != b.front()) return false;
  bool equal = true;
  bool* const to = &equal;
  wide([=]() TESSERA_INLINE {
    std::uint32_t different = 0;
    const auto by = static_cast<std::uint32_t>(shift);
    for (std::size_t i = 0; i < a.size(); ++i) {
      different |= (static_cast<std::uint32_t>(a[i]) - by) ^ static_cast<std::uint32_t>(b[i]);
    }
    *to = different == 0;
  });
  return equal;
}

}  // namespace tessera::storage
