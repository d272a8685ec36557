// SPDX-License-Identifier: Apache-2.0
// LayerNorm and RMSNorm: a warp or a block has a row, and for the parameters a block has some
// rows of some columns.
#include "engine/backends/cuda/module/column_parts.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

// Rows longer than this have a block each, others a warp.
constexpr std::int64_t warp_width = 2048;

// The threads of a row, and which part of it this one has.
template <int n, bool wide>
struct RowThreads {
  static constexpr int step = (wide ? threads : warp_threads) * n;
  std::int64_t row, first;

  __device__ RowThreads()
      : row(wide ? blockIdx.x
                 : static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_threads),
        first(static_cast<std::int64_t>(wide ? threadIdx.x : threadIdx.x % warp_threads) * n) {}

  static __device__ float sum(float x) {
    if constexpr (wide) return block_sum(x);
    return warp_sum(x);
  }
};

template <int n, bool wide, class T, class W>
__global__ void forward_kernel(NormShape s, const float* x, const W* weight, const W* bias, T* y,
                               T* normal, float* reciprocal) {
  using Own = RowThreads<n, wide>;
  const Own own;
  if (own.row >= s.rows) return;
  const std::int64_t w = s.width;
  const float* const row = x + own.row * w;
  const float scale = 1.0F / static_cast<float>(w);
  float part = 0;
#pragma unroll 4
  for (std::int64_t i = own.first; s.centred && i < w; i += Own::step) {
    const auto in = load_pack<float, n>(row + i);
    for (int k = 0; k < n; ++k) part += in.at[k];
  }
  const float mean = s.centred ? Own::sum(part) * scale : 0.0F;
  part = 0;
#pragma unroll 4
  for (std::int64_t i = own.first; i < w; i += Own::step) {
    const auto in = load_pack<float, n>(row + i);
    for (int k = 0; k < n; ++k) part += (in.at[k] - mean) * (in.at[k] - mean);
  }
  const float inverse = 1.0F / sqrtf(Own::sum(part) * scale + s.epsilon);
  if (own.first == 0) reciprocal[own.row] = inverse;
#pragma unroll 2
  for (std::int64_t i = own.first; i < w; i += Own::step) {
    const auto in = load_pack<float, n>(row + i);
    const auto factor = load_pack<W, n>(weight + i);
    const auto added = bias != nullptr ? load_pack<W, n>(bias + i) : Pack<W, n>{};
    Pack<T, n> kept, out;
    for (int k = 0; k < n; ++k) {
      const float one = (in.at[k] - mean) * inverse;
      store(kept.at[k], one);
      const float scaled = one * load(factor.at[k]);
      store(out.at[k], bias != nullptr ? scaled + load(added.at[k]) : scaled);
    }
    store_pack(normal + own.row * w + i, kept);
    store_pack(y + own.row * w + i, out);
  }
}

template <int n, bool wide, class T, class W>
__global__ void backward_kernel(NormShape s, const float* dy, const W* weight, const T* normal,
                                const float* reciprocal, float* dx) {
  using Own = RowThreads<n, wide>;
  const Own own;
  if (own.row >= s.rows) return;
  const std::int64_t w = s.width;
  const float* const row = dy + own.row * w;
  const T* const kept = normal + own.row * w;
  float* const to = dx + own.row * w;
  const float scale = 1.0F / static_cast<float>(w);
  float all = 0;
  float product = 0;
#pragma unroll 4
  for (std::int64_t i = own.first; i < w; i += Own::step) {
    const auto g = load_pack<float, n>(row + i);
    const auto factor = load_pack<W, n>(weight + i);
    const auto x = load_pack<T, n>(kept + i);
    for (int k = 0; k < n; ++k) {
      all += g.at[k] * load(factor.at[k]);
      product += g.at[k] * load(factor.at[k]) * load(x.at[k]);
    }
  }
  const float mean = s.centred ? Own::sum(all) * scale : 0.0F;
  const float along = Own::sum(product) * scale;
  const float inverse = reciprocal[own.row];
#pragma unroll 2
  for (std::int64_t i = own.first; i < w; i += Own::step) {
    const auto g = load_pack<float, n>(row + i);
    const auto factor = load_pack<W, n>(weight + i);
    const auto x = load_pack<T, n>(kept + i);
    auto sum = load_pack<float, n>(to + i);
    for (int k = 0; k < n; ++k) {
      sum.at[k] += inverse * (g.at[k] * load(factor.at[k]) - mean - load(x.at[k]) * along);
    }
    store_pack(to + i, sum);
  }
}

// As column_sums: a part's sums for the weight, then those for the bias.
template <int n, class T>
__global__ void parameter_kernel(NormShape s, const float* dy, const T* normal,
                                 std::int64_t part_rows, float* sums) {
  constexpr int strip = warp_threads * n;
  __shared__ float weights[warps][strip];
  __shared__ float biases[warps][strip];
  const unsigned lane = threadIdx.x % warp_threads;
  const unsigned warp = threadIdx.x / warp_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * strip;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * part_rows;
  const std::int64_t end = begin + part_rows < s.rows ? begin + part_rows : s.rows;
  const std::int64_t c = first + lane * n;
  float of_weight[n] = {};
  float of_bias[n] = {};
  if (c < s.width) {
#pragma unroll 4
    for (std::int64_t r = begin + warp; r < end; r += warps) {
      const auto g = load_pack<float, n>(dy + r * s.width + c);
      const auto x = load_pack<T, n>(normal + r * s.width + c);
      for (int k = 0; k < n; ++k) {
        of_weight[k] += g.at[k] * load(x.at[k]);
        of_bias[k] += g.at[k];
      }
    }
  }
  for (int k = 0; k < n; ++k) {
    weights[warp][lane * n + k] = of_weight[k];
    biases[warp][lane * n + k] = of_bias[k];
  }
  float* const to = sums + blockIdx.y * 2 * s.width + first;
  add_warps(weights, s.width - first, to);
  add_warps(biases, s.width - first, to + s.width);
}

// f<n, wide>(blocks): packs of n, and a block or a warp for a row.
template <class F>
int with_rows(const NormShape& s, bool packs, const F& f) {
  const auto blocks = [&](std::int64_t rows_per_block) {
    return Grid{dim3(static_cast<unsigned>((s.rows + rows_per_block - 1) / rows_per_block))};
  };
  constexpr int n = widest_pack<float>;
  const bool aligned = packs && s.width % n == 0;
  if (s.width > warp_width) {
    return aligned ? f.template operator()<n, true>(blocks(1))
                   : f.template operator()<1, true>(blocks(1));
  }
  return aligned ? f.template operator()<n, false>(blocks(warps))
                 : f.template operator()<1, false>(blocks(warps));
}

template <class... At>
bool all_aligned(const At*... at) {
  return (is_aligned(at, widest_pack<float>) && ...);
}

// f<W>(weight, bias): both have the type of parameters.
template <class F>
int with_parameters(ConstArray weight, ConstArray bias, const F& f) {
  TESSERA_ASSERT(bias.data == nullptr || bias.dtype == weight.dtype, "parameters have one type");
  return typed_launch(weight.dtype, [&]<class W>(W*) { return f(weight.as<W>(), bias.as<W>()); });
}

int parameter_gradients(const NormShape& shape, const float* dy, ConstArray normal,
                        const NormGradients& to, CudaStream stream) {
  const ColumnParts parts = ColumnParts::of(shape.rows, 2 * shape.width);
  auto* const found = static_cast<float*>(to.scratch);
  const int code = typed_launch(normal.dtype, [&]<class T>(T*) {
    constexpr int n = widest_pack<float>;
    const bool packs = shape.width % n == 0 && all_aligned(dy, normal.as<T>());
    const std::int64_t strip = warp_threads * (packs ? n : 1);
    const dim3 blocks(static_cast<unsigned>((shape.width + strip - 1) / strip),
                      static_cast<unsigned>(parts.count));
    return launch(packs ? parameter_kernel<n, T> : parameter_kernel<1, T>, {blocks}, stream, shape,
                  dy, normal.as<T>(), parts.rows, found);
  });
  if (code != 0) return code;
  return add_parts({found, parts.count, shape.width, 2 * shape.width}, to.weight, to.bias, stream);
}

}  // namespace

int norm_forward(const NormShape& shape, const float* x, ConstArray weight, ConstArray bias,
                 Array y, Array normal, float* reciprocal, CudaStream stream) {
  return typed_launch(y.dtype, [&]<class T>(T*) {
    return with_parameters(weight, bias, [&]<class W>(const W* factor, const W* added) {
      const bool packs = all_aligned(x, factor, added, y.as<T>(), normal.as<T>());
      return with_rows(shape, packs, [&]<int n, bool wide>(const Grid& grid) {
        return launch(forward_kernel<n, wide, T, W>, grid, stream, shape, x, factor, added,
                      y.as<T>(), normal.as<T>(), reciprocal);
      });
    });
  });
}

int norm_backward(const NormShape& shape, const float* dy, ConstArray weight, ConstArray normal,
                  const float* reciprocal, float* dx, const NormGradients& gradients,
                  CudaStream stream) {
  const int code = typed_launch(normal.dtype, [&]<class T>(T*) {
    return with_parameters(weight, {}, [&]<class W>(const W* factor, const W*) {
      const bool packs = all_aligned(dy, factor, normal.as<T>(), dx);
      return with_rows(shape, packs, [&]<int n, bool wide>(const Grid& grid) {
        return launch(backward_kernel<n, wide, T, W>, grid, stream, shape, dy, factor,
                      normal.as<T>(), reciprocal, dx);
      });
    });
  });
  const bool frozen = gradients.weight.data == nullptr && gradients.bias.data == nullptr;
  if (code != 0 || frozen) return code;
  return parameter_gradients(shape, dy, normal, gradients, stream);
}

}  // namespace tessera::device
