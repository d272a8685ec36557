// SPDX-License-Identifier: Apache-2.0
// Causal attention without tensor cores: float32, and sizes that tiles do not fit. A warp has a row
// of queries, or of keys in backward, and takes 32 of the others at a time: each lane one of them,
// then each lane some of the head's elements (FlashAttention-2, arXiv 2307.08691, algorithms 1, 2).
#include "engine/cuda/module/device.h"
#include "engine/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

constexpr int rows_per_block = 8;  // warps
constexpr int elements_max = 4;    // of a head, per lane: head_dim <= 128

// The rows of one head of queries; its keys.
template <class T>
struct HeadRows {
  const T *q, *k, *v;
  std::int64_t statistics;  // of its first row

  __device__ HeadRows(const AttentionShape& s, const HeadArrays<const T*>& in, std::int64_t batch,
                      std::int64_t head) {
    const std::int64_t token = batch * s.length;
    const std::int64_t kv = head / (s.heads / s.kv_heads) * s.head_dim;
    q = in.q + token * s.q_stride + head * s.head_dim;
    k = in.k + token * s.kv_stride + kv;
    v = in.v + token * s.kv_stride + kv;
    statistics = (batch * s.heads + head) * s.length;
  }
};

template <class A, class B>
__device__ float dot(const A* a, const B* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

// Whether this warp has a row; its number among all.
__device__ bool own_row(std::int64_t rows, std::int64_t& row) {
  row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_threads;
  return row < rows;
}

template <class T>
__global__ void forward_kernel(AttentionShape s, HeadArrays<const T*> in, T* out,
                               float* statistics, float scale) {
  std::int64_t row = 0;
  if (!own_row(s.rows(), row)) return;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t head = row / s.length % s.heads;
  const std::int64_t batch = row / s.length / s.heads;
  const std::int64_t t = row % s.length;
  const HeadRows<T> h(s, in, batch, head);
  const T* const q = h.q + t * s.q_stride;
  float own[elements_max] = {};
  float most = -3.0e38F;
  float sum = 0;
  for (std::int64_t first = 0; first <= t; first += warp_threads) {
    const std::int64_t u = first + lane;
    const float score = u <= t ? dot(q, h.k + u * s.kv_stride, s.head_dim) * scale : -3.0e38F;
    const float larger = warp_largest(score);
    const float next = most > larger ? most : larger;
    const float shrink = expf(most - next);
    const float weight = u <= t ? expf(score - next) : 0.0F;
    most = next;
    sum = sum * shrink + warp_sum(weight);
    for (float& x : own) x *= shrink;
    for (int j = 0; j < warp_threads && first + j <= t; ++j) {
      const float w = __shfl_sync(0xFFFFFFFFU, weight, j);
      const T* const v = h.v + (first + j) * s.kv_stride;
      for (int k = 0; k < elements_max; ++k) {
        const int i = k * warp_threads + lane;
        if (i < s.head_dim) own[k] += w * load(v[i]);
      }
    }
  }
  T* const to = out + (batch * s.length + t) * s.out_stride() + head * s.head_dim;
  for (int k = 0; k < elements_max; ++k) {
    const int i = k * warp_threads + lane;
    if (i < s.head_dim) store(to[i], own[k] / sum);
  }
  if (lane != 0) return;
  statistics[2 * row] = most;
  statistics[2 * row + 1] = 1.0F / sum;
}

template <class T>
__global__ void along_kernel(AttentionShape s, const T* out, const T* gradient, float* along) {
  std::int64_t row = 0;
  if (!own_row(s.rows(), row)) return;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t head = row / s.length % s.heads;
  const std::int64_t token = row / s.length / s.heads * s.length + row % s.length;
  const std::int64_t at = token * s.out_stride() + head * s.head_dim;
  float own = 0;
  for (std::int64_t i = lane; i < s.head_dim; i += warp_threads) {
    own += load(out[at + i]) * load(gradient[at + i]);
  }
  own = warp_sum(own);
  if (lane == 0) along[row] = own;
}

template <class T>
__global__ void query_gradient_kernel(AttentionShape s, HeadArrays<const T*> in, const T* dout,
                                      const float* statistics, const float* along, T* dq,
                                      float scale) {
  std::int64_t row = 0;
  if (!own_row(s.rows(), row)) return;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t head = row / s.length % s.heads;
  const std::int64_t batch = row / s.length / s.heads;
  const std::int64_t t = row % s.length;
  const HeadRows<T> h(s, in, batch, head);
  const T* const q = h.q + t * s.q_stride;
  const T* const g = dout + (batch * s.length + t) * s.out_stride() + head * s.head_dim;
  float own[elements_max] = {};
  for (std::int64_t first = 0; first <= t; first += warp_threads) {
    const std::int64_t u = first + lane;
    float ds = 0;
    if (u <= t) {
      const float score = dot(q, h.k + u * s.kv_stride, s.head_dim) * scale;
      const float weight = expf(score - statistics[2 * row]) * statistics[2 * row + 1];
      ds = weight * (dot(g, h.v + u * s.kv_stride, s.head_dim) - along[row]) * scale;
    }
    for (int j = 0; j < warp_threads && first + j <= t; ++j) {
      const float of_key = __shfl_sync(0xFFFFFFFFU, ds, j);
      const T* const k_row = h.k + (first + j) * s.kv_stride;
      for (int k = 0; k < elements_max; ++k) {
        const int i = k * warp_threads + lane;
        if (i < s.head_dim) own[k] += of_key * load(k_row[i]);
      }
    }
  }
  T* const to = dq + (batch * s.length + t) * s.q_stride + head * s.head_dim;
  for (int k = 0; k < elements_max; ++k) {
    const int i = k * warp_threads + lane;
    if (i < s.head_dim) store(to[i], own[k]);
  }
}

// A warp has a key of one head of keys: queries of all heads that share it, one head after another.
template <class T>
__global__ void key_gradient_kernel(AttentionShape s, HeadArrays<const T*> in, const T* dout,
                                    const float* statistics, const float* along, T* dk, T* dv,
                                    float scale) {
  std::int64_t row = 0;
  if (!own_row(s.batch * s.kv_heads * s.length, row)) return;
  const int lane = static_cast<int>(threadIdx.x % warp_threads);
  const std::int64_t kv_head = row / s.length % s.kv_heads;
  const std::int64_t batch = row / s.length / s.kv_heads;
  const std::int64_t u = row % s.length;
  const std::int64_t group = s.heads / s.kv_heads;
  float own_k[elements_max] = {};
  float own_v[elements_max] = {};
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadRows<T> h(s, in, batch, head);
    const T* const g = dout + batch * s.length * s.out_stride() + head * s.head_dim;
    for (std::int64_t first = u; first < s.length; first += warp_threads) {
      const std::int64_t t = first + lane;
      float weight = 0;
      float ds = 0;
      if (t < s.length) {
        const std::int64_t at = h.statistics + t;
        const T* const k_row = h.k + u * s.kv_stride;
        const float score = dot(h.q + t * s.q_stride, k_row, s.head_dim) * scale;
        weight = expf(score - statistics[2 * at]) * statistics[2 * at + 1];
        const float dw = dot(g + t * s.out_stride(), h.v + u * s.kv_stride, s.head_dim);
        ds = weight * (dw - along[at]) * scale;
      }
      for (int j = 0; j < warp_threads && first + j < s.length; ++j) {
        const float w = __shfl_sync(0xFFFFFFFFU, weight, j);
        const float d = __shfl_sync(0xFFFFFFFFU, ds, j);
        const T* const q_row = h.q + (first + j) * s.q_stride;
        const T* const g_row = g + (first + j) * s.out_stride();
        for (int k = 0; k < elements_max; ++k) {
          const int i = k * warp_threads + lane;
          if (i >= s.head_dim) continue;
          own_v[k] += w * load(g_row[i]);
          own_k[k] += d * load(q_row[i]);
        }
      }
    }
  }
  const std::int64_t to = (batch * s.length + u) * s.kv_stride + kv_head * s.head_dim;
  for (int k = 0; k < elements_max; ++k) {
    const int i = k * warp_threads + lane;
    if (i >= s.head_dim) continue;
    store(dk[to + i], own_k[k]);
    store(dv[to + i], own_v[k]);
  }
}

float scale_of(const AttentionShape& s) { return 1.0F / sqrtf(static_cast<float>(s.head_dim)); }

Grid rows(std::int64_t count) {
  return {dim3(static_cast<unsigned>((count + rows_per_block - 1) / rows_per_block))};
}

template <class T>
HeadArrays<const T*> typed(const HeadArrays<ConstArray>& in) {
  return {in.q.as<T>(), in.k.as<T>(), in.v.as<T>()};
}

}  // namespace

int attention_forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
                      float* statistics, CudaStream stream) {
  if (fits_tiles(s, in, out)) return tiles_forward(s, in, out, statistics, stream);
  int code = 0;
  with_type(s.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(forward_kernel<T>, rows(s.rows()), stream, s, typed<T>(in), out.as<T>(),
                  statistics, scale_of(s));
  });
  return code;
}

int attention_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                       const AttentionOut& out, const float* statistics,
                       const HeadArrays<Array>& gradients, float* along, CudaStream stream) {
  int code = 0;
  with_type(s.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const dout = out.gradient.as<T>();
    code = launch(along_kernel<T>, rows(s.rows()), stream, s, out.values.as<T>(), dout, along);
    if (code != 0) return;
    if (fits_tiles(s, in, out.gradient)) {
      code = tiles_backward(s, in, out, statistics, gradients, along, stream);
      return;
    }
    code = launch(query_gradient_kernel<T>, rows(s.rows()), stream, s, typed<T>(in), dout,
                  statistics, along, gradients.q.as<T>(), scale_of(s));
    if (code != 0) return;
    code = launch(key_gradient_kernel<T>, rows(s.batch * s.kv_heads * s.length), stream, s,
                  typed<T>(in), dout, statistics, along, gradients.k.as<T>(), gradients.v.as<T>(),
                  scale_of(s));
  });
  return code;
}

}  // namespace tessera::device
