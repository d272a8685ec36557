// SPDX-License-Identifier: Apache-2.0
// KernelApi::cast_blocks: all blocks of all pieces of a copy at once.
#include "engine/backends/cuda/module/batch.h"
#include "engine/backends/cuda/module/language_kernels.h"

namespace tessera::device {
namespace {

template <class From, class To>
constexpr int cast_pack = std::is_same_v<From, To> ? widest_pack<To> : 4;

template <class From, class To>
struct CastItem {
  const From* from;
  To* to;
  std::int64_t numel, from_pitch, to_pitch;
  unsigned parts;  // of a block of elements
  bool packs;
};

template <int n, class From, class To>
__device__ void cast_part(const From* from, To* to, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin + threadIdx.x * n; i < end; i += threads * n) {
    const auto in = load_pack<From, n>(from + i);
    Pack<To, n> out;
    if constexpr (std::is_same_v<From, To>) {
      out = in;  // NaN keeps its payload
    } else {
      for (int k = 0; k < n; ++k) store(out.at[k], load(in.at[k]));
    }
    store_pack(to + i, out);
  }
}

template <class From, class To>
__global__ void casts_kernel(const __grid_constant__ Batch<CastItem<From, To>> batch) {
  const int k = batch.own();
  const CastItem<From, To>& item = batch.items[k];
  const unsigned own = blockIdx.x - batch.begins[k];
  const From* const from = item.from + own / item.parts * item.from_pitch;
  To* const to = item.to + own / item.parts * item.to_pitch;
  const std::int64_t begin = own % item.parts * batch_part;
  const std::int64_t end = begin + batch_part < item.numel ? begin + batch_part : item.numel;
  if (item.packs) {
    cast_part<cast_pack<From, To>>(from, to, begin, end);
  } else {
    cast_part<1>(from, to, begin, end);
  }
}

template <class From, class To>
CastItem<From, To> item_of(const BlockCast& cast) {
  const BlockCopy& s = cast.shape;
  constexpr int n = cast_pack<From, To>;
  const auto in_packs = [](const auto* at, std::int64_t pitch) {
    return pitch % n == 0 && is_aligned(at, n);
  };
  const auto* const from = static_cast<const From*>(cast.from);
  auto* const to = static_cast<To*>(cast.to);
  return {from,
          to,
          s.numel,
          s.from_pitch,
          s.to_pitch,
          batch_blocks(s.numel),
          s.numel % n == 0 && in_packs(from, s.from_pitch) && in_packs(to, s.to_pitch)};
}

}  // namespace

int cast_blocks(std::span<const BlockCast> casts, CudaStream stream) {
  const auto same = [](const BlockCast& a, const BlockCast& b) {
    return a.shape.from_dtype == b.shape.from_dtype && a.shape.to_dtype == b.shape.to_dtype;
  };
  return for_runs(casts, same, [&](std::span<const BlockCast> run) {
    return typed_launch(run[0].shape.from_dtype, [&]<class From>(From*) {
      return typed_launch(run[0].shape.to_dtype, [&]<class To>(To*) {
        using Item = CastItem<From, To>;
        Batcher<Item> batcher([&](const Batch<Item>& batch, unsigned blocks) {
          return launch(casts_kernel<From, To>, {dim3(blocks)}, stream, batch);
        });
        for (const BlockCast& cast : run) {
          const auto count = static_cast<unsigned>(cast.shape.count);
          batcher.add(item_of<From, To>(cast), batch_blocks(cast.shape.numel) * count);
        }
        return batcher.flush();
      });
    });
  });
}

}  // namespace tessera::device
