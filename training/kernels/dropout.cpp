// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/dropout.h"

#include <algorithm>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr int blocks = dropout_tile / 4;

// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
std::uint64_t key_mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// One of four words of the counters of a tile.
using Words = std::uint32_t[blocks];

TESSERA_INLINE inline void philox_round(Words (&c)[4], std::uint32_t key0, std::uint32_t key1) {
  for (int k = 0; k < blocks; ++k) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0][k];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c[2][k];
    c[0][k] = static_cast<std::uint32_t>(b >> 32) ^ c[1][k] ^ key0;
    c[2][k] = static_cast<std::uint32_t>(a >> 32) ^ c[3][k] ^ key1;
    c[1][k] = static_cast<std::uint32_t>(b);
    c[3][k] = static_cast<std::uint32_t>(a);
  }
}

struct TileRow {
  std::uint32_t row, place, sample;
};

TileRow row_of(const Dropout& dropout, std::int64_t sample, std::int64_t row) {
  return {static_cast<std::uint32_t>(row), dropout.place,
          static_cast<std::uint32_t>(dropout.first_sample + sample)};
}

TESSERA_INLINE inline void factors_of(const Dropout& dropout, const TileRow& at, std::int64_t first,
                                      float (&to)[dropout_tile]) {
  Words c[4];
  for (int k = 0; k < blocks; ++k) {
    c[0][k] = static_cast<std::uint32_t>(first / 4) + static_cast<std::uint32_t>(k);
    c[1][k] = at.row;
    c[2][k] = at.place;
    c[3][k] = at.sample;
  }
  auto key0 = static_cast<std::uint32_t>(dropout.key);
  auto key1 = static_cast<std::uint32_t>(dropout.key >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(c, key0, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const auto dropped =
      static_cast<std::uint32_t>(static_cast<double>(dropout.share) * 4294967296.0);
  const float kept = 1.0F / (1.0F - dropout.share);
  for (int word = 0; word < 4; ++word) {
    for (int k = 0; k < blocks; ++k) to[4 * k + word] = c[word][k] < dropped ? 0.0F : kept;
  }
}

// use(place, columns, factors), `place` being that of the first element, for tiles of all rows.
template <class Use>
void each_tile(const Dropout& dropout, const Positions& shape, int threads, const Use& use) {
  parallel(threads, shape.batch * shape.length, 1, [&](int, std::int64_t begin, std::int64_t end) {
    wide([&]() TESSERA_INLINE {
      float factors[dropout_tile];
      for (std::int64_t n = begin; n < end; ++n) {
        const TileRow at = row_of(dropout, n / shape.length, n % shape.length);
        for (std::int64_t first = 0; first < shape.width; first += dropout_tile) {
          factors_of(dropout, at, first, factors);
          use(n * shape.width + first, std::min(dropout_tile, shape.width - first), factors);
        }
      }
    });
  });
}

}  // namespace

std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step) {
  return key_mix(key_mix(seed) + static_cast<std::uint64_t>(step));
}

void dropout_factors(const Dropout& dropout, std::int64_t sample, std::int64_t row,
                     std::int64_t first, float (&to)[dropout_tile]) {
  const TileRow at = row_of(dropout, sample, row);
  wide([&]() TESSERA_INLINE { factors_of(dropout, at, first, to); });
}

void drop(const Dropout& dropout, const Positions& shape, ConstArray from, Array to, int threads) {
  with_type(from.dtype, [&](auto* from_type) {
    using From = std::remove_pointer_t<decltype(from_type)>;
    with_type(to.dtype, [&](auto* to_type) {
      using To = std::remove_pointer_t<decltype(to_type)>;
      const From* const source = from.as<From>();
      To* const target = to.as<To>();
      each_tile(dropout, shape, threads,
                [=](std::int64_t at, std::int64_t columns, const float* factors) TESSERA_INLINE {
                  for (std::int64_t c = 0; c < columns; ++c) {
                    store(target[at + c], load(source[at + c]) * factors[c]);
                  }
                });
    });
  });
}

void add_dropped(const Dropout& dropout, const Positions& shape, const float* from, float* to,
                 int threads) {
  each_tile(dropout, shape, threads,
            [=](std::int64_t at, std::int64_t columns, const float* factors) TESSERA_INLINE {
              for (std::int64_t c = 0; c < columns; ++c) to[at + c] += from[at + c] * factors[c];
            });
}

}  // namespace tessera::kernels
