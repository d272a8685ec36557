// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/attention_rows.h"

#include <cmath>

#include "training/kernels/softmax.h"

namespace tessera::kernels {

float scale_of(const AttentionShape& shape) {
  return shape.scale > 0 ? shape.scale : 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

void attention_weights(const BlockRows& block, float* scores, Array weights, float* statistics) {
  with_type(weights.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const out = weights.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        float* const row = scores + r * block.keys;
        T* const to = out + r * block.keys;
        const std::int64_t from = block.first_seen(r);
        const std::int64_t seen = block.first + r + 1;
        const float most = largest(row + from, seen - from) * block.scale;
        for (std::int64_t i = from; i < seen; ++i) {
          row[i] = exponential(row[i] * block.scale - most);
        }
        const float all = sum_of(row + from, seen - from);
        const float inverse = 1.0F / all;
        std::int64_t i = 0;
        for (; i < from; ++i) store(to[i], 0.0F);
        for (; i < seen; ++i) store(to[i], row[i] * inverse);
        for (; i < block.keys; ++i) store(to[i], 0.0F);
        statistics[2 * r] = most;
        statistics[2 * r + 1] = inverse;
      }
    });
  });
}

void weights_again(const BlockRows& block, const float* scores, Array weights,
                   const float* statistics) {
  with_type(weights.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const out = weights.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const float* const row = scores + r * block.keys;
        T* const to = out + r * block.keys;
        const std::int64_t seen = block.first + r + 1;
        const float most = statistics[2 * r];
        const float inverse = statistics[2 * r + 1];
        const std::int64_t from = block.first_seen(r);
        std::int64_t i = 0;
        for (; i < from; ++i) store(to[i], 0.0F);
        for (; i < seen; ++i) {
          store(to[i], exponential(row[i] * block.scale - most) * inverse);
        }
        for (; i < block.keys; ++i) store(to[i], 0.0F);
      }
    });
  });
}

void scores_gradient(const BlockRows& block, const OutRows& out, const float* weights_gradient,
                     Array weights) {
  with_type(weights.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const all_weights = weights.as<T>();
    const T* const values = out.out.as<T>();
    const T* const gradients = out.gradient.as<T>();
    const std::int64_t width = out.width;
    const std::int64_t stride = out.stride;
    wide([=]() TESSERA_INLINE {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const T* const o = values + r * stride;
        const T* const g = gradients + r * stride;
        float sum[lanes] = {};
        std::int64_t i = 0;
        for (; i + lanes <= width; i += lanes) {
          for (int k = 0; k < lanes; ++k) sum[k] += load(o[i + k]) * load(g[i + k]);
        }
        for (int k = 0; i + k < width; ++k) sum[k] += load(o[i + k]) * load(g[i + k]);
        const float along = total_of(sum);
        const float* const dw = weights_gradient + r * block.keys;
        T* const w = all_weights + r * block.keys;
        const std::int64_t seen = block.first + r + 1;
        for (i = block.first_seen(r); i < seen; ++i) {
          store(w[i], load(w[i]) * (dw[i] - along) * block.scale);
        }
      }
    });
  });
}

void spread_rows(const float* from, std::int64_t rows, std::int64_t width, Array to,
                 std::int64_t stride) {
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const target = to.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < width; ++c) store(target[r * stride + c], from[r * width + c]);
      }
    });
  });
}

}  // namespace tessera::kernels
