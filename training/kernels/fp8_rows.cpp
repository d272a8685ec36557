// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/fp8_rows.h"

#include "engine/math/e4m3.h"
#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t strip = MatmulShape::scaled_together;  // columns that are looked at together

template <class T>
struct Tile {
  const T* from;
  std::int64_t stride;  // from one row to the next
  float* to;
  std::int64_t to_stride;
  std::int64_t rows, columns;
  bool apart;  // each column has a scale of its own

  TESSERA_INLINE void round() const {
    std::uint32_t largest[strip] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = from + r * stride;
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::uint32_t own = magnitude_bits(load(row[i]));
        largest[i] = largest[i] < own ? own : largest[i];
      }
    }
    std::uint32_t of_all = 0;
    for (std::int64_t i = 0; i < columns; ++i) of_all = of_all < largest[i] ? largest[i] : of_all;
    float scales[strip], inverses[strip];
    for (std::int64_t i = 0; i < columns; ++i) {
      scales[i] = e4m3_scale(apart ? largest[i] : of_all);
      inverses[i] = e4m3_inverse(scales[i]);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = from + r * stride;
      float* const out = to + r * to_stride;
      for (std::int64_t i = 0; i < columns; ++i) {
        out[i] = from_e4m3(to_e4m3(load(row[i]) * inverses[i])) * scales[i];
      }
    }
  }
};

}  // namespace

void round_to_fp8(const StoredRows& rows, const ScaleTile& tile, ConstArray from, float* to) {
  const std::int64_t bands = (rows.count + tile.rows - 1) / tile.rows;
  with_type(from.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const source = from.as<T>();
    parallel(threads_limit(), bands, 1, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t row = begin * tile.rows; row < end * tile.rows; row += tile.rows) {
          const std::int64_t left = rows.count - row;
          if (left <= 0) return;
          for (std::int64_t c = 0; c < rows.width; c += strip) {
            const std::int64_t beside = rows.width - c;
            Tile<T>{source + row * rows.stride + c,
                    rows.stride,
                    to + row * rows.width + c,
                    rows.width,
                    left < tile.rows ? left : tile.rows,
                    beside < strip ? beside : strip,
                    tile.columns == 1}
                .round();
          }
        }
      });
    });
  });
}

}  // namespace tessera::kernels
