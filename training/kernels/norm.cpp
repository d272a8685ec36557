// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/norm.h"

#include <cmath>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

// sum of f(i) for i < n, in a fixed order.
template <class F>
TESSERA_INLINE inline float sum_of(std::int64_t n, const F& f) {
  float sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int k = 0; k < lanes; ++k) sum[k] += f(i + k);
  }
  for (int k = 0; i + k < n; ++k) sum[k] += f(i + k);
  return total_of(sum);
}

template <class T>
void forward_rows(const NormShape& s, std::int64_t begin, std::int64_t end, const float* x,
                  const float* weight, const float* bias, T* y, T* normal, float* reciprocal) {
  const std::int64_t w = s.width;
  const bool centred = s.centred;
  const float scale = 1.0F / static_cast<float>(w);
  const float epsilon = s.epsilon;
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = x + r * w;
      const float mean =
          centred ? sum_of(w, [=](std::int64_t i) TESSERA_INLINE { return row[i]; }) * scale : 0;
      const float variance =
          sum_of(w,
                 [=](std::int64_t i) TESSERA_INLINE { return (row[i] - mean) * (row[i] - mean); }) *
          scale;
      const float inverse = 1.0F / std::sqrt(variance + epsilon);
      reciprocal[r] = inverse;
      T* const to = y + r * w;
      T* const kept = normal + r * w;
      for (std::int64_t i = 0; i < w; ++i) store(kept[i], (row[i] - mean) * inverse);
      if (bias != nullptr) {
        for (std::int64_t i = 0; i < w; ++i) {
          store(to[i], ((row[i] - mean) * inverse) * weight[i] + bias[i]);
        }
      } else {
        for (std::int64_t i = 0; i < w; ++i) store(to[i], ((row[i] - mean) * inverse) * weight[i]);
      }
    }
  });
}

template <class T>
void backward_rows(const NormShape& s, std::int64_t begin, std::int64_t end, const float* dy,
                   const float* weight, const T* normal, const float* reciprocal, float* dx) {
  const std::int64_t w = s.width;
  const bool centred = s.centred;
  const float scale = 1.0F / static_cast<float>(w);
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const g = dy + r * w;
      const T* const n = normal + r * w;
      float* const to = dx + r * w;
      const float mean =
          centred
              ? sum_of(w, [=](std::int64_t i) TESSERA_INLINE { return g[i] * weight[i]; }) * scale
              : 0;
      const float along =
          sum_of(w, [=](std::int64_t i) TESSERA_INLINE { return g[i] * weight[i] * load(n[i]); }) *
          scale;
      const float inverse = reciprocal[r];
      for (std::int64_t i = 0; i < w; ++i) {
        to[i] += inverse * (g[i] * weight[i] - mean - load(n[i]) * along);
      }
    }
  });
}

// Blocks of rows are summed apart: long sums lose fewer bits.
constexpr std::int64_t block = 64;
constexpr std::int64_t strip = 64;  // columns whose sums stay in registers

template <class T>
void parameter_sums(const NormShape& s, std::int64_t begin, std::int64_t end, const float* dy,
                    const T* normal, float* dweight, float* dbias) {
  const std::int64_t w = s.width;
  const std::int64_t rows = s.rows;
  wide([=]() TESSERA_INLINE {
    for (std::int64_t c = begin; c < end; c += strip) {
      const std::int64_t n = end - c < strip ? end - c : strip;
      for (std::int64_t i = 0; i < n; ++i) dweight[c + i] = dbias[c + i] = 0;
      for (std::int64_t first = 0; first < rows; first += block) {
        float partial_weight[strip] = {};
        float partial_bias[strip] = {};
        const std::int64_t last = first + block < rows ? first + block : rows;
        for (std::int64_t r = first; r < last; ++r) {
          const float* const g = dy + r * w + c;
          const T* const x = normal + r * w + c;
          for (std::int64_t i = 0; i < n; ++i) {
            partial_weight[i] += g[i] * load(x[i]);
            partial_bias[i] += g[i];
          }
        }
        for (std::int64_t i = 0; i < n; ++i) {
          dweight[c + i] += partial_weight[i];
          dbias[c + i] += partial_bias[i];
        }
      }
    }
  });
}

constexpr std::int64_t grain = 64;  // rows

}  // namespace

void norm_forward(const NormShape& shape, const float* x, const float* weight, const float* bias,
                  Array y, Array normal, float* reciprocal, int threads) {
  with_type(y.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, shape.rows, grain, [&](int, std::int64_t begin, std::int64_t end) {
      forward_rows(shape, begin, end, x, weight, bias, y.as<T>(), normal.as<T>(), reciprocal);
    });
  });
}

void norm_again(const NormShape& shape, ConstArray normal, const float* weight, const float* bias,
                Array y, int threads) {
  TESSERA_ASSERT(normal.dtype == DType::float32 && y.dtype == DType::float32,
                 "halves have lost what a norm's output is made of");
  const std::int64_t w = shape.width;
  parallel(threads, shape.rows, grain, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const from = normal.as<float>() + r * w;
      float* const to = y.as<float>() + r * w;
      for (std::int64_t i = 0; i < w; ++i) to[i] = from[i] * weight[i];
      if (bias == nullptr) continue;
      for (std::int64_t i = 0; i < w; ++i) to[i] += bias[i];
    }
  });
}

void norm_backward(const NormShape& shape, const float* dy, const float* weight, ConstArray normal,
                   const float* reciprocal, float* dx, float* sums, int threads) {
  with_type(normal.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, shape.rows, grain, [&](int, std::int64_t begin, std::int64_t end) {
      backward_rows(shape, begin, end, dy, weight, normal.as<T>(), reciprocal, dx);
    });
    parallel(threads, shape.width, strip, [&](int, std::int64_t begin, std::int64_t end) {
      parameter_sums(shape, begin, end, dy, normal.as<T>(), sums, sums + shape.width);
    });
  });
}

}  // namespace tessera::kernels
