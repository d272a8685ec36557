// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/attention_rows.h"

#include <algorithm>
#include <cmath>

#include "training/kernels/dropout.h"
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

void cap_scores(const BlockRows& block, float cap, float* scores, float* slopes) {
  const float inward = block.scale / cap;
  const float outward = cap / block.scale;
  wide([=]() TESSERA_INLINE {
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const std::int64_t seen = block.first + r + 1;
      for (std::int64_t i = r * block.keys + block.first_seen(r); i < r * block.keys + seen; ++i) {
        const float t = hyperbolic_tangent(scores[i] * inward);
        scores[i] = t * outward;
        if (slopes != nullptr) slopes[i] = 1 - t * t;
      }
    }
  });
}

void cap_gradient(const BlockRows& block, const float* slopes, Array gradients) {
  with_type(gradients.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const g = gradients.as<T>();
    wide([=]() TESSERA_INLINE {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const std::int64_t seen = block.first + r + 1;
        const std::int64_t at = r * block.keys;
        for (std::int64_t i = at + block.first_seen(r); i < at + seen; ++i) {
          store(g[i], load(g[i]) * slopes[i]);
        }
      }
    });
  });
}

namespace {

template <class T>
TESSERA_INLINE inline float product_of(const T* a, const T* b, std::int64_t width) {
  float sum[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    for (int k = 0; k < lanes; ++k) sum[k] += load(a[i + k]) * load(b[i + k]);
  }
  for (int k = 0; i + k < width; ++k) sum[k] += load(a[i + k]) * load(b[i + k]);
  return total_of(sum);
}

// use(r, first, count, factors): of row r the columns [first, first + count) that it sees.
template <class Use>
void each_seen_tile(const BlockRows& block, const Use& use) {
  float factors[dropout_tile];
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::int64_t from = block.first_seen(r);
    const std::int64_t seen = block.first + r + 1;
    for (std::int64_t tile = from / dropout_tile * dropout_tile; tile < seen;
         tile += dropout_tile) {
      dropout_factors(*block.dropout, block.sample, block.head + block.first + r, tile, factors);
      const std::int64_t first = tile < from ? from : tile;
      const std::int64_t end = tile + dropout_tile < seen ? tile + dropout_tile : seen;
      use(r, first, end - first, factors + (first - tile));
    }
  }
}

}  // namespace

void drop_weights(const BlockRows& block, Array weights) {
  with_type(weights.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const all = weights.as<T>();
    each_seen_tile(
        block, [&](std::int64_t r, std::int64_t first, std::int64_t count, const float* factors) {
          T* const w = all + r * block.keys + first;
          for (std::int64_t i = 0; i < count; ++i) store(w[i], load(w[i]) * factors[i]);
        });
  });
}

// The output's product with its own gradient is the sum over all weights, dropped or not, of weight
// and gradient: so FlashAttention's shortcut holds.
void dropped_gradient(const BlockRows& block, const OutRows& out, float* weights_gradient,
                      Array weights) {
  with_type(weights.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const all = weights.as<T>();
    std::int64_t row = -1;
    float along = 0;
    each_seen_tile(
        block, [&](std::int64_t r, std::int64_t first, std::int64_t count, const float* factors) {
          if (r != row) {
            along = product_of(out.out.as<T>() + r * out.stride,
                               out.gradient.as<T>() + r * out.stride, out.width);
            row = r;
          }
          T* const w = all + r * block.keys + first;
          float* const dw = weights_gradient + r * block.keys + first;
          for (std::int64_t i = 0; i < count; ++i) {
            const float weight = load(w[i]);
            dw[i] = weight * (dw[i] * factors[i] - along) * block.scale;
            store(w[i], weight * factors[i]);
          }
        });
    for (std::int64_t r = 0; r < block.rows; ++r) {
      float* const dw = weights_gradient + r * block.keys;
      std::fill(dw, dw + block.first_seen(r), 0.0F);
      std::fill(dw + block.first + r + 1, dw + block.keys, 0.0F);
    }
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
        const float along = product_of(o, g, width);
        const float* const dw = weights_gradient + r * block.keys;
        T* const w = all_weights + r * block.keys;
        const std::int64_t seen = block.first + r + 1;
        for (std::int64_t i = block.first_seen(r); i < seen; ++i) {
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
