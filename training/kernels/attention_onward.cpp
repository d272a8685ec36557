// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/attention_onward.h"

#include <algorithm>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"
#include "training/kernels/attention_rows.h"

namespace tessera::kernels {
namespace {

// Rows of keys, or of values, of one head.
template <class T>
struct Seen {
  const T* rows;
  std::int64_t stride, count, width;
};

template <class T>
void scores_of(const T* q, const Seen<T>& keys, float* scores) {
  wide([=]() TESSERA_INLINE {
    for (std::int64_t u = 0; u < keys.count; ++u) {
      const T* const k = keys.rows + u * keys.stride;
      float sum[lanes] = {};
      std::int64_t i = 0;
      for (; i + lanes <= keys.width; i += lanes) {
        for (int n = 0; n < lanes; ++n) sum[n] += load(q[i + n]) * load(k[i + n]);
      }
      for (int n = 0; i + n < keys.width; ++n) sum[n] += load(q[i + n]) * load(k[i + n]);
      scores[u] = total_of(sum);
    }
  });
}

// A strip of elements at a time, whose sums stay in registers.
template <class T>
void weighted_sum(const float* weights, const Seen<T>& values, T* to) {
  wide([=]() TESSERA_INLINE {
    for (std::int64_t first = 0; first < values.width; first += lanes) {
      const std::int64_t count = std::min<std::int64_t>(lanes, values.width - first);
      float sum[lanes] = {};
      for (std::int64_t u = 0; u < values.count; ++u) {
        const T* const v = values.rows + u * values.stride + first;
        for (std::int64_t n = 0; n < count; ++n) sum[n] += weights[u] * load(v[n]);
      }
      for (std::int64_t n = 0; n < count; ++n) store(to[first + n], sum[n]);
    }
  });
}

}  // namespace

void attention_onward(const AttentionShape& s, std::int64_t first, const HeadArrays<ConstArray>& in,
                      Array out, float* scores, int threads) {
  TESSERA_ASSERT(s.batch == 1, "one sequence goes on");
  const float scale = scale_of(s);
  with_type(s.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, s.rows(), 1, [&](int thread, std::int64_t begin, std::int64_t end) {
      float* const own = scores + thread * (first + s.length);
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t head = row / s.length;
        const std::int64_t t = row % s.length;
        const std::int64_t kv = head / (s.heads / s.kv_heads) * s.head_dim;
        const std::int64_t skipped = s.first_seen(first + t);
        const std::int64_t count = first + t + 1 - skipped;
        const std::int64_t at = head * s.head_dim;
        const std::int64_t from = skipped * s.kv_stride + kv;
        scores_of(in.q.as<T>() + t * s.q_stride + at,
                  Seen<T>{in.k.as<T>() + from, s.kv_stride, count, s.head_dim}, own);
        float statistics[2];
        const BlockRows last{count - 1, 1, count, scale};
        if (s.cap > 0) cap_scores(last, s.cap, own, nullptr);
        attention_weights(last, own, {own, DType::float32}, statistics);
        weighted_sum(own, Seen<T>{in.v.as<T>() + from, s.kv_stride, count, s.head_dim},
                     out.as<T>() + t * s.out_stride() + at);
      }
    });
  });
}

}  // namespace tessera::kernels
