// SPDX-License-Identifier: Apache-2.0
// Causal attention without tensor cores: float32, and sizes that tiles do not fit. A warp has a row
// of queries, or of keys in backward, and takes 32 of the others at a time: each lane one of them,
// then each lane some of the head's elements (FlashAttention-2, arXiv 2307.08691, algorithms 1, 2).
#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"

namespace tessera::device {
namespace {

constexpr int rows_per_block = 8;  // warps
constexpr int elements_max = 4;    // of a head, per lane: head_dim <= 128

// The row of queries, or of keys, that a warp has.
struct OwnRow {
  std::int64_t number;  // among all of them
  std::int64_t batch, head, t;
  int lane;

  __device__ OwnRow(const AttentionShape& s, std::int64_t heads)
      : number(static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / warp_threads),
        batch(number / s.length / heads),
        head(number / s.length % heads),
        t(number % s.length),
        lane(static_cast<int>(threadIdx.x % warp_threads)) {}

  __device__ bool exists(const AttentionShape& s) const { return batch < s.batch; }
  /// Where it begins in what attention gives.
  __device__ std::int64_t out(const AttentionShape& s) const {
    return (batch * s.length + t) * s.out_stride() + head * s.head_dim;
  }
};

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

// Rows times numbers, added up: each lane has some of a row's elements.
struct HeadSum {
  int lane;
  std::int64_t width;
  float own[elements_max] = {};

  __device__ HeadSum(const OwnRow& row, const AttentionShape& s)
      : lane(row.lane), width(s.head_dim) {}

  /// Row j times the number of lane j. REQUIRES: count <= 32; all lanes call it.
  template <class T>
  __device__ void add(float number, const T* rows, std::int64_t stride, std::int64_t count) {
    for (int j = 0; j < count; ++j) {
      const float factor = __shfl_sync(0xFFFFFFFFU, number, j);
      const T* const row = rows + j * stride;
      for (int k = 0; k < elements_max; ++k) {
        const int i = k * warp_threads + lane;
        if (i < width) own[k] += factor * load(row[i]);
      }
    }
  }
  __device__ void shrink(float factor) {
    for (float& x : own) x *= factor;
  }
  template <class T>
  __device__ void write(T* to, float divisor = 1) const {
    for (int k = 0; k < elements_max; ++k) {
      const int i = k * warp_threads + lane;
      if (i < width) store(to[i], own[k] / divisor);
    }
  }
};

template <class A, class B>
__device__ float dot(const A* a, const B* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

// How many of a warp's rows from `first` on come before `end`.
__device__ std::int64_t rows_left(std::int64_t first, std::int64_t end) {
  return end - first < warp_threads ? end - first : warp_threads;
}

template <class T>
__global__ void forward_kernel(AttentionShape s, HeadArrays<const T*> in, T* out, float* statistics,
                               float scale) {
  const OwnRow row(s, s.heads);
  if (!row.exists(s)) return;
  const HeadRows<T> h(s, in, row.batch, row.head);
  const T* const q = h.q + row.t * s.q_stride;
  HeadSum values(row, s);
  float most = -3.0e38F;
  float sum = 0;
  for (std::int64_t first = 0; first <= row.t; first += warp_threads) {
    const std::int64_t u = first + row.lane;
    const float score = u <= row.t ? dot(q, h.k + u * s.kv_stride, s.head_dim) * scale : -3.0e38F;
    const float larger = warp_largest(score);
    const float next = most > larger ? most : larger;
    const float shrink = expf(most - next);
    const float weight = u <= row.t ? expf(score - next) : 0.0F;
    most = next;
    sum = sum * shrink + warp_sum(weight);
    values.shrink(shrink);
    values.add(weight, h.v + first * s.kv_stride, s.kv_stride, rows_left(first, row.t + 1));
  }
  values.write(out + row.out(s), sum);
  if (row.lane != 0) return;
  statistics[2 * row.number] = most;
  statistics[2 * row.number + 1] = 1.0F / sum;
}

template <class T>
__global__ void along_kernel(AttentionShape s, const T* out, const T* gradient, float* along) {
  const OwnRow row(s, s.heads);
  if (!row.exists(s)) return;
  const std::int64_t at = row.out(s);
  float own = 0;
  for (std::int64_t i = row.lane; i < s.head_dim; i += warp_threads) {
    own += load(out[at + i]) * load(gradient[at + i]);
  }
  own = warp_sum(own);
  if (row.lane == 0) along[row.number] = own;
}

// Where `lanes` packs are a row, which then follow each other.
template <int lanes, class T>
__global__ void along_packs_kernel(AttentionShape s, const T* out, const T* gradient,
                                   float* along) {
  constexpr int n = widest_pack<T>;
  const std::int64_t i = first_element();
  const std::int64_t row = i / lanes;
  float own = 0;
  if (row < s.rows()) {
    const auto a = load_pack<T, n>(out + i * n);
    const auto b = load_pack<T, n>(gradient + i * n);
    for (int k = 0; k < n; ++k) own += load(a.at[k]) * load(b.at[k]);
  }
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    own += __shfl_xor_sync(0xFFFFFFFFU, own, apart);
  }
  if (row >= s.rows() || i % lanes != 0) return;
  const std::int64_t token = row / s.heads;
  along[(token / s.length * s.heads + row % s.heads) * s.length + token % s.length] = own;
}

template <class T>
__global__ void query_gradient_kernel(AttentionShape s, HeadArrays<const T*> in, const T* dout,
                                      const float* statistics, const float* along, T* dq,
                                      float scale) {
  const OwnRow row(s, s.heads);
  if (!row.exists(s)) return;
  const HeadRows<T> h(s, in, row.batch, row.head);
  const T* const q = h.q + row.t * s.q_stride;
  const T* const g = dout + row.out(s);
  HeadSum of_keys(row, s);
  for (std::int64_t first = 0; first <= row.t; first += warp_threads) {
    const std::int64_t u = first + row.lane;
    float ds = 0;
    if (u <= row.t) {
      const float score = dot(q, h.k + u * s.kv_stride, s.head_dim) * scale;
      const float weight =
          expf(score - statistics[2 * row.number]) * statistics[2 * row.number + 1];
      ds = weight * (dot(g, h.v + u * s.kv_stride, s.head_dim) - along[row.number]) * scale;
    }
    of_keys.add(ds, h.k + first * s.kv_stride, s.kv_stride, rows_left(first, row.t + 1));
  }
  of_keys.write(dq + (row.batch * s.length + row.t) * s.q_stride + row.head * s.head_dim);
}

// A warp has a key of one head of keys: queries of all heads that share it, one head after another.
template <class T>
__global__ void key_gradient_kernel(AttentionShape s, HeadArrays<const T*> in, const T* dout,
                                    const float* statistics, const float* along, T* dk, T* dv,
                                    float scale) {
  const OwnRow row(s, s.kv_heads);
  if (!row.exists(s)) return;
  const std::int64_t group = s.heads / s.kv_heads;
  HeadSum of_queries(row, s);
  HeadSum of_gradients(row, s);
  for (std::int64_t head = row.head * group; head < (row.head + 1) * group; ++head) {
    const HeadRows<T> h(s, in, row.batch, head);
    const T* const g = dout + row.batch * s.length * s.out_stride() + head * s.head_dim;
    for (std::int64_t first = row.t; first < s.length; first += warp_threads) {
      const std::int64_t t = first + row.lane;
      float weight = 0;
      float ds = 0;
      if (t < s.length) {
        const std::int64_t at = h.statistics + t;
        const T* const k_row = h.k + row.t * s.kv_stride;
        const float score = dot(h.q + t * s.q_stride, k_row, s.head_dim) * scale;
        weight = expf(score - statistics[2 * at]) * statistics[2 * at + 1];
        const float dw = dot(g + t * s.out_stride(), h.v + row.t * s.kv_stride, s.head_dim);
        ds = weight * (dw - along[at]) * scale;
      }
      const std::int64_t count = rows_left(first, s.length);
      of_gradients.add(weight, g + first * s.out_stride(), s.out_stride(), count);
      of_queries.add(ds, h.q + first * s.q_stride, s.q_stride, count);
    }
  }
  const std::int64_t to = (row.batch * s.length + row.t) * s.kv_stride + row.head * s.head_dim;
  of_queries.write(dk + to);
  of_gradients.write(dv + to);
}

float scale_of(const AttentionShape& s) {
  return s.scale > 0 ? s.scale : 1.0F / sqrtf(static_cast<float>(s.head_dim));
}

Grid rows(std::int64_t count) {
  return {dim3(static_cast<unsigned>((count + rows_per_block - 1) / rows_per_block))};
}

template <class T>
int products_along(const AttentionShape& s, const T* out, const T* gradient, float* to,
                   CudaStream stream) {
  constexpr int n = widest_pack<T>;
  const Grid packs = {
      dim3(static_cast<unsigned>((s.rows() * s.head_dim / n + threads - 1) / threads))};
  if (is_aligned(out, n) && is_aligned(gradient, n)) {
    if (s.head_dim == 8 * n) {
      return launch(along_packs_kernel<8, T>, packs, stream, s, out, gradient, to);
    }
    if (s.head_dim == 16 * n) {
      return launch(along_packs_kernel<16, T>, packs, stream, s, out, gradient, to);
    }
  }
  return launch(along_kernel<T>, rows(s.rows()), stream, s, out, gradient, to);
}

template <class T>
HeadArrays<const T*> typed(const HeadArrays<ConstArray>& in) {
  return {in.q.as<T>(), in.k.as<T>(), in.v.as<T>()};
}

}  // namespace

int attention_forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
                      float* statistics, bool hopper, CudaStream stream) {
  if (hopper && fits_hopper(s, in)) return hopper_forward(s, in, out, statistics, stream);
  if (fits_tiles(s, in, out)) return tiles_forward(s, in, out, statistics, stream);
  return typed_launch(s.dtype, [&]<class T>(T*) {
    return launch(forward_kernel<T>, rows(s.rows()), stream, s, typed<T>(in), out.as<T>(),
                  statistics, scale_of(s));
  });
}

int attention_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                       const AttentionOut& out, const float* statistics,
                       const HeadArrays<Array>& gradients, void* temporary, bool hopper,
                       CudaStream stream) {
  auto* const along = static_cast<float*>(temporary);
  return typed_launch(s.dtype, [&]<class T>(T*) {
    const T* const dout = out.gradient.as<T>();
    int code = products_along(s, out.values.as<T>(), dout, along, stream);
    if (code != 0) return code;
    if (hopper && fits_hopper_gradient(s, in, out.gradient)) {
      return hopper_backward(s, in, out.gradient, statistics, gradients, temporary, stream);
    }
    if (fits_tiles(s, in, out.gradient)) {
      return tiles_backward(s, in, out, statistics, gradients, along, stream);
    }
    code = launch(query_gradient_kernel<T>, rows(s.rows()), stream, s, typed<T>(in), dout,
                  statistics, along, gradients.q.as<T>(), scale_of(s));
    if (code != 0) return code;
    return launch(key_gradient_kernel<T>, rows(s.batch * s.kv_heads * s.length), stream, s,
                  typed<T>(in), dout, statistics, along, gradients.k.as<T>(), gradients.v.as<T>(),
                  scale_of(s));
  });
}

}  // namespace tessera::device
