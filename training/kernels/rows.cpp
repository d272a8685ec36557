// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/rows.h"

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 1 << 15;  // numbers
constexpr std::int64_t strip = 64;       // columns whose sums stay in registers
constexpr std::int64_t block = 64;       // rows that are summed apart

std::int64_t rows_of(std::int64_t width) { return grain / width + 1; }

}  // namespace

void convert(ConstArray from, Array to, std::int64_t numel, int threads) {
  with_type(from.dtype, [&](auto* in) {
    with_type(to.dtype, [&](auto* out) {
      using From = std::remove_pointer_t<decltype(in)>;
      using To = std::remove_pointer_t<decltype(out)>;
      parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
        const From* const source = from.as<From>();
        To* const target = to.as<To>();
        wide([=]() TESSERA_INLINE {
          for (std::int64_t i = begin; i < end; ++i) store(target[i], load(source[i]));
        });
      });
    });
  });
}

void accumulate(const float* from, Array to, std::int64_t numel) {
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const target = to.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t i = 0; i < numel; ++i) store(target[i], load(target[i]) + from[i]);
    });
  });
}

void scale(Array values, float factor, std::int64_t numel) {
  with_type(values.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const target = values.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t i = 0; i < numel; ++i) store(target[i], load(target[i]) * factor);
    });
  });
}

void column_sums(ConstArray from, std::int64_t rows, std::int64_t width, float* sums, int threads) {
  with_type(from.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const source = from.as<T>();
    parallel(threads, width, strip, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t c = begin; c < end; c += strip) {
          const std::int64_t n = end - c < strip ? end - c : strip;
          for (std::int64_t i = 0; i < n; ++i) sums[c + i] = 0;
          for (std::int64_t first = 0; first < rows; first += block) {
            float partial[strip] = {};
            const std::int64_t last = first + block < rows ? first + block : rows;
            for (std::int64_t r = first; r < last; ++r) {
              const T* const row = source + r * width + c;
              for (std::int64_t i = 0; i < n; ++i) partial[i] += load(row[i]);
            }
            for (std::int64_t i = 0; i < n; ++i) sums[c + i] += partial[i];
          }
        }
      });
    });
  });
}

void gather_rows(ConstArray table, std::span<const std::int32_t> ids, std::int64_t width, float* x,
                 int threads) {
  with_type(table.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const source = table.as<T>();
    const std::int32_t* const id = ids.data();
    parallel(threads, static_cast<std::int64_t>(ids.size()), rows_of(width),
             [&](int, std::int64_t begin, std::int64_t end) {
               wide([=]() TESSERA_INLINE {
                 for (std::int64_t n = begin; n < end; ++n) {
                   const T* const from = source + id[n] * width;
                   float* const to = x + n * width;
                   for (std::int64_t i = 0; i < width; ++i) to[i] = load(from[i]);
                 }
               });
             });
  });
}

void scatter_rows(const float* dx, std::span<const std::int32_t> ids, std::int64_t width,
                  Array gradient, int threads, std::int32_t skipped) {
  with_type(gradient.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const target = gradient.as<T>();
    const std::int32_t* const id = ids.data();
    const auto count = static_cast<std::int64_t>(ids.size());
    parallel(threads, width, strip, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t n = 0; n < count; ++n) {
          if (id[n] == skipped) continue;
          const float* const from = dx + n * width;
          T* const to = target + id[n] * width;
          for (std::int64_t i = begin; i < end; ++i) store(to[i], load(to[i]) + from[i]);
        }
      });
    });
  });
}

void add_positions(ConstArray table, const Positions& shape, float* x, int threads) {
  const std::int64_t length = shape.length;
  const std::int64_t width = shape.width;
  const std::int32_t* const places = shape.places;
  with_type(table.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const source = table.as<T>();
    parallel(threads, shape.batch * length, rows_of(width),
             [&](int, std::int64_t begin, std::int64_t end) {
               wide([=]() TESSERA_INLINE {
                 for (std::int64_t n = begin; n < end; ++n) {
                   const std::int64_t place = places == nullptr ? n % length : places[n];
                   const T* const from = source + place * width;
                   float* const to = x + n * width;
                   for (std::int64_t i = 0; i < width; ++i) to[i] += load(from[i]);
                 }
               });
             });
  });
}

void sum_positions(const float* dx, std::int64_t batch, std::int64_t length, std::int64_t width,
                   Array gradient, int threads) {
  with_type(gradient.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const target = gradient.as<T>();
    const std::int64_t all = length * width;
    parallel(threads, all, grain, [&](int, std::int64_t begin, std::int64_t end) {
      wide([=]() TESSERA_INLINE {
        for (std::int64_t c = begin; c < end; c += strip) {
          const std::int64_t n = end - c < strip ? end - c : strip;
          float partial[strip] = {};
          for (std::int64_t b = 0; b < batch; ++b) {
            for (std::int64_t i = 0; i < n; ++i) partial[i] += dx[b * all + c + i];
          }
          for (std::int64_t i = 0; i < n; ++i)
            store(target[c + i], load(target[c + i]) + partial[i]);
        }
      });
    });
  });
}

}  // namespace tessera::kernels
