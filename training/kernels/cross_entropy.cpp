// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/cross_entropy.h"

#include <limits>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"
#include "training/kernels/softmax.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 1 << 13;  // numbers

}  // namespace

void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                   float scale, Array gradient, float* losses, int threads) {
  const std::int64_t width = rows.width;
  const std::int64_t stride = rows.stride;
  with_type(gradient.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const out = gradient.as<T>();
    parallel(
        threads, rows.count, grain / width + 1, [&](int, std::int64_t begin, std::int64_t end) {
          wide([=]() TESSERA_INLINE {
            for (std::int64_t r = begin; r < end; ++r) {
              const float* const row = logits + r * stride;
              T* const to = out + r * stride;
              const std::int32_t target = targets[r];
              if (target < 0 || target >= width) {
                for (std::int64_t i = 0; i < width; ++i) store(to[i], 0.0F);
                losses[r] = target < 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
                continue;
              }
              const float most = largest(row, width);
              const float sum = sum_of_exponentials(row, width, 1.0F, most);
              const float factor = scale / sum;
              const float wanted = row[target] - most;  // before `to`, which may be the same row
              for (std::int64_t i = 0; i < width; ++i) {
                store(to[i], exponential(row[i] - most) * factor);
              }
              store(to[target], exponential(wanted) * factor - scale);
              losses[r] = logarithm(sum) - wanted;
            }
          });
        });
  });
}

void cap_logits(const StoredRows& rows, float cap, float* logits, float* slopes, int threads) {
  parallel(threads, rows.count, 1, [&](int, std::int64_t begin, std::int64_t end) {
    const float inward = 1.0F / cap;
    const StoredRows r = rows;
    wide([=]() TESSERA_INLINE {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t i = row * r.stride; i < row * r.stride + r.width; ++i) {
          const float t = hyperbolic_tangent(logits[i] * inward);
          logits[i] = cap * t;
          if (slopes != nullptr) slopes[i] = 1.0F - t * t;
        }
      }
    });
  });
}

void cap_logits_back(const StoredRows& rows, const float* slopes, Array gradient, int threads) {
  with_type(gradient.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const g = gradient.as<T>();
    parallel(threads, rows.count, 1, [&](int, std::int64_t begin, std::int64_t end) {
      const StoredRows r = rows;
      wide([=]() TESSERA_INLINE {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t i = row * r.stride; i < row * r.stride + r.width; ++i) {
            store(g[i], load(g[i]) * slopes[i]);
          }
        }
      });
    });
  });
}

}  // namespace tessera::kernels
