// SPDX-License-Identifier: Apache-2.0
// The gradients of causal attention on Hopper in five products (FlashAttention-3, arXiv
// 2407.08608): a block has 128 keys, each of its two groups of four warps 64 of them, and queries
// come tile by tile. Gradients of keys and values stay in registers; what a tile of queries gets
// from these keys is added to float32 sums in memory, block after block of the same head in the
// order of keys: so sums have the same bits every time.
#include "engine/backends/cuda/module/hopper_pieces.h"
#include "engine/backends/cuda/module/hopper_sums.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"

namespace tessera::device {
namespace {

using kernels::BlockOrder;
using kernels::HopperGradient;

constexpr int sum_threads = 2 * group_threads;  // of the last kernel's blocks

// Per row of all tiles, also behind the last token, where weights are 0; everybody's turn begins.
template <int D>
__global__ void row_numbers_kernel(AttentionShape s, const float* statistics, BetweenKernels to) {
  constexpr int queries = Pieces<D>::queries;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t rows = static_cast<std::int64_t>(to.tiles) * queries;  // of a head
  if (i >= s.batch * s.heads * rows) return;
  const std::int64_t t = i % rows;
  const std::int64_t row = i / rows * s.length + t;
  to.offsets[i] = t < s.length ? weight_offset(statistics, row) : -lowest;
  to.products[i] = t < s.length ? to.along[row] : 0;
  if (i % queries == 0) to.turns[i / queries] = 0;
  if (i == 0) *to.ticket = 0;
}

template <int D>
__device__ void fetch(const Pieces<D>& pieces, const AttentionShape& s, const Task<D>& task,
                      const TensorMap& q, const TensorMap& k, const TensorMap& v,
                      const TensorMap& dout, const BetweenKernels& between) {
  using P = Pieces<D>;
  const TileRows own{task.head, task.tile * block_keys, task.sequence};
  arrive_expecting(pieces.have_keys(), 2 * P::key_bytes);
  load_tile<D>(pieces.keys(), k, block_keys, pieces.have_keys(), own);
  load_tile<D>(pieces.values(), v, block_keys, pieces.have_keys(), own);
  for (int step = 0; step < task.steps(); ++step) {
    const Turn turn(step);
    const std::int64_t rows = task.place(s, step) * P::queries;
    const TileRows from{task.query_head(step), task.query_tile(step) * P::queries, task.sequence};
    Barrier* const query = pieces.have_query(turn.stage);
    wait_for_phase(pieces.read_query(turn.stage), turn.phase ^ 1U);
    arrive_expecting(query, P::query_bytes + 2 * P::row_bytes);
    load_tile<D>(pieces.query(turn.stage), q, P::queries, query, from);
    load_bytes(pieces.offsets(turn.stage), between.offsets + rows, P::row_bytes, query);
    load_bytes(pieces.products(turn.stage), between.products + rows, P::row_bytes, query);
    wait_for_phase(pieces.read_gradient(turn.stage), turn.phase ^ 1U);
    arrive_expecting(pieces.have_gradient(turn.stage), P::query_bytes);
    load_tile<D>(pieces.gradient(turn.stage), dout, P::queries, pieces.have_gradient(turn.stage),
                 from);
  }
}

// Adds what groups leave in shared memory when all earlier keys have been added.
template <int D>
__device__ void add_sums(const Pieces<D>& pieces, const AttentionShape& s, const Task<D>& task,
                         const BetweenKernels& between) {
  const auto number = static_cast<unsigned>(task.tile);
  for (int step = 0; step < task.steps(); ++step) {
    const std::int64_t place = task.place(s, step);
    wait_for_phase(pieces.have_sums(), static_cast<unsigned>(step % 2));
    wait_for_turn(between.turns + place, number);
    add_floats(between.sums + place * (Pieces<D>::sum_bytes / 4), pieces.sums(),
               Pieces<D>::sum_bytes, number > 0);
    wait_for_reads();
    arrive(pieces.read_sums());
    wait_for_sums();
    pass_turn(between.turns + place, number);
  }
}

// A group's 64 keys, which are rows of its products; queries are columns.
template <class T, int D>
struct KeyGroup {
  using P = Pieces<D>;
  static constexpr int eights = P::queries / 8;

  Pieces<D> pieces;
  int number, lane, warp_row;  // of the group; of this warp among the block's keys

  __device__ KeyGroup()
      : number(same_in_warp(static_cast<int>(threadIdx.x) / group_threads - 1)),
        lane(static_cast<int>(threadIdx.x % warp_threads)),
        warp_row(number * 64 + static_cast<int>(threadIdx.x) % group_threads / warp_threads * 16) {}

  // Begins to = own rows others', where `own` has the block's keys.
  __device__ void multiply_rows(float (&to)[eights][4], const unsigned char* own,
                                const unsigned char* others) const {
    const std::uint64_t rows = matrix_of(own + number * 64 * 128);
    const std::uint64_t columns = matrix_of(others);
    hold(to);
    begin_products();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      const int along = k % 4 * 32;
      multiply_shared<T>(to, further(rows, k / 4 * block_keys * 128 + along),
                         further(columns, k / 4 * P::queries * 128 + along), k > 0);
    }
    end_products();
  }
  // Begins sums += kept others.
  __device__ void multiply_pairs(float (&sums)[D / 8][4], const unsigned (&kept)[eights / 2][4],
                                 const unsigned char* others) const {
    const std::uint64_t rows = matrix_of(others, P::queries * 128);
    hold(sums);
    begin_products();
#pragma unroll
    for (int k = 0; k < eights / 2; ++k) {
      multiply_kept<T>(sums, kept[k], further(rows, k * 2 * swizzle_bytes));
    }
    end_products();
  }
  // Begins to = 64 x 64 of the product of changes with the keys: heads of 64 have 128 queries, of
  // which a group has 64; those of 128 have 64 queries, of which a group has 64 columns.
  __device__ void multiply_changes(float (&to)[8][4], int step) const {
    const int rows = P::queries == 128 ? number : 0;
    const int columns = P::queries == 128 ? 0 : number;
    const std::uint64_t changes = matrix_of(pieces.changes(step) + rows * block_keys * 128);
    const std::uint64_t keys = matrix_of(pieces.keys() + columns * block_keys * 128);
    hold(to);
    begin_products();
#pragma unroll
    for (int k = 0; k < block_keys / 16; ++k) {
      multiply_columns<T>(to, further(changes, k * 2 * swizzle_bytes),
                          further(keys, k * 2 * swizzle_bytes), k > 0);
    }
    end_products();
  }

  // Scores become weights.
  __device__ void weigh(float (&p)[eights][4], const float* offsets, float factor) const {
#pragma unroll
    for (int n = 0; n < eights; ++n) {
      const auto two = load_pack<float, 2>(offsets + n * 8 + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) p[n][i] = power_of_two(p[n][i] * factor - two.at[i % 2]);
    }
  }
  // Products of values and gradients become gradients of scores, but for the scale.
  __device__ void differ(float (&ds)[eights][4], const float (&p)[eights][4],
                         const float* products) const {
#pragma unroll
    for (int n = 0; n < eights; ++n) {
      const auto two = load_pack<float, 2>(products + n * 8 + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) ds[n][i] = p[n][i] * (ds[n][i] - two.at[i % 2]);
    }
  }

  // As rows of keys, swizzled.
  __device__ void write_changes(const unsigned (&changes)[eights / 2][4], int step) const {
    unsigned char* const row =
        pieces.changes(step) + (warp_row + lane / 8 % 2 * 8 + lane % 8) * 128;
#pragma unroll
    for (int k = 0; k < eights / 2; ++k) {
      const int eight = 2 * k + lane / 16;
      store_matrices(row + eight / 8 * block_keys * 128 + ((eight % 8) ^ (lane % 8)) * 16,
                     changes[k]);
    }
  }
  // Four numbers of each thread of the group, four more ...: query_sums_kernel reads them so.
  __device__ void write_sums(const float (&sums)[8][4]) const {
    float* const own = pieces.sums() + number * sum_numbers + threadIdx.x % group_threads * 4;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      store_pack<float, 4>(own + n * 4 * group_threads,
                           {sums[n][0], sums[n][1], sums[n][2], sums[n][3]});
    }
  }
};

template <class T, int D>
__device__ void differentiate(const KeyGroup<T, D>& group, const AttentionShape& s,
                              const Task<D>& task, T* dk, T* dv, float scale) {
  constexpr int queries = Pieces<D>::queries;
  constexpr int eights = KeyGroup<T, D>::eights;
  const Pieces<D>& pieces = group.pieces;
  float of_keys[D / 8][4] = {};
  float of_values[D / 8][4] = {};
  wait_for_phase(pieces.have_keys(), 0);
  for (int step = 0; step < task.steps(); ++step) {
    const Turn turn(step);
    float p[eights][4];
    float ds[eights][4];
    unsigned weights[eights / 2][4];
    unsigned changes[eights / 2][4];
    wait_for_phase(pieces.have_query(turn.stage), turn.phase);
    group.multiply_rows(p, pieces.keys(), pieces.query(turn.stage));
    wait_for_phase(pieces.have_gradient(turn.stage), turn.phase);
    group.multiply_rows(ds, pieces.values(), pieces.gradient(turn.stage));
    wait_for_products<1>();
    hold(p);
    const int column = task.query_tile(step) * queries - task.tile * block_keys;
    if (column < block_keys) mask(p, group.lane, group.warp_row, column, true);
    group.weigh(p, pieces.offsets(turn.stage), scale * log2_e);
    round_pairs<T>(weights, p);
    wait_for_products<0>();
    hold(ds);
    group.differ(ds, p, pieces.products(turn.stage));
    round_pairs<T>(changes, ds);
    group.write_changes(changes, step);
    publish_shared();
    group.multiply_pairs(of_values, weights, pieces.gradient(turn.stage));
    meet_threads<consumer_threads>();  // the other group's changes are there
    float sums[8][4];
    group.multiply_changes(sums, step);
    group.multiply_pairs(of_keys, changes, pieces.query(turn.stage));
    wait_for_products<2>();
    hold(of_values);
    free_tile(pieces.read_gradient(turn.stage));
    wait_for_phase(pieces.read_sums(), static_cast<unsigned>(step % 2) ^ 1U);
    wait_for_products<1>();
    hold(sums);
    group.write_sums(sums);
    publish_shared();
    __syncwarp();
    free_tile(pieces.have_sums());
    wait_for_products<0>();
    hold(of_keys);
    free_tile(pieces.read_query(turn.stage));
  }
  const std::int64_t first = std::int64_t{task.tile} * block_keys;
  const std::int64_t kv = kv_offset(s, task.sequence, task.head, first);
  const float factors[2][2] = {{scale, scale}, {1, 1}};
  store_rows<D>(of_keys, factors[0], dk + kv, s.kv_stride, group.warp_row, s.length - first, D);
  store_rows<D>(of_values, factors[1], dv + kv, s.kv_stride, group.warp_row, s.length - first, D);
}

template <class T, int D>
__global__ void __launch_bounds__(hopper_block, 1)
    hopper_gradient_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                           const __grid_constant__ TensorMap v,
                           const __grid_constant__ TensorMap dout, AttentionShape s,
                           BlockOrder order, BetweenKernels between, T* dk, T* dv, float scale) {
  const KeyGroup<T, D> group;
  const Pieces<D>& pieces = group.pieces;
  if (threadIdx.x == 0) {
    pieces.begin();
    *pieces.ticket() = take_ticket(between.ticket);
  }
  __syncthreads();
  const Task<D> task(s, order.block(static_cast<int>(*pieces.ticket())), between.tiles);
  if (threadIdx.x < group_threads) {
    keep_registers<24>();
    if (threadIdx.x == 0) fetch(pieces, s, task, q, k, v, dout, between);
    if (threadIdx.x == warp_threads) add_sums(pieces, s, task, between);
  } else {
    take_registers<240>();
    differentiate(group, s, task, dk, dv, scale);
  }
}

// Sums become gradients of queries: a block has a tile.
template <class T, int D>
__global__ void __launch_bounds__(sum_threads)
    query_sums_kernel(AttentionShape s, BetweenKernels from, T* dq, float scale) {
  constexpr int queries = Pieces<D>::queries;
  const std::int64_t tile = blockIdx.x % from.tiles;
  const std::int64_t head = blockIdx.x / from.tiles;
  const int thread = static_cast<int>(threadIdx.x) % group_threads;
  const int group = static_cast<int>(threadIdx.x) / group_threads;
  const float* const own = from.sums + (std::int64_t{blockIdx.x} * consumers + group) * sum_numbers;
  float sums[8][4];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const auto four = load_pack<float, 4>(own + (n * group_threads + thread) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = four.at[i];
  }
  const float factor[2] = {scale, scale};
  const int row = thread / warp_threads * 16 + (queries == 128 ? group * 64 : 0);
  T* const to = dq + q_offset(s, head / s.heads, head % s.heads, tile * queries);
  store_rows<64>(sums, factor, to + (queries == 128 ? 0 : group * 64), s.q_stride, row,
                 s.length - tile * queries, 64);
}

template <class T, int D>
int backward(const AttentionShape& s, const HeadArrays<ConstArray>& in, ConstArray dout,
             const float* statistics, const HeadArrays<Array>& gradients, void* memory,
             CudaStream stream) {
  constexpr int queries = Pieces<D>::queries;
  const HopperGradient at(s);
  const BetweenKernels between(at, memory);
  const BlockOrder order(s, between.tiles);
  const auto blocks = [](std::int64_t count) { return dim3(static_cast<unsigned>(count)); };
  TensorMap q, k, v, g;
  int code = make_map(boxes_of(s, in.q.data, s.heads, s.q_stride, queries), q);
  if (code == 0) code = make_map(boxes_of(s, in.k.data, s.kv_heads, s.kv_stride, block_keys), k);
  if (code == 0) code = make_map(boxes_of(s, in.v.data, s.kv_heads, s.kv_stride, block_keys), v);
  if (code == 0) code = make_map(boxes_of(s, dout.data, s.heads, s.out_stride(), queries), g);
  if (code != 0) return code;
  const std::int64_t tiles = s.batch * s.heads * between.tiles;
  code = launch(row_numbers_kernel<D>, {blocks((tiles * queries + threads - 1) / threads)}, stream,
                s, statistics, between);
  if (code != 0) return code;
  code = launch(hopper_gradient_kernel<T, D>,
                {blocks(order.blocks()), hopper_block, Pieces<D>::bytes}, stream, q, k, v, g, s,
                order, between, gradients.k.as<T>(), gradients.v.as<T>(), scale_of(s));
  if (code != 0) return code;
  return launch(query_sums_kernel<T, D>, {blocks(tiles), sum_threads}, stream, s, between,
                gradients.q.as<T>(), scale_of(s));
}

template <class T>
int backward_of(const AttentionShape& s, const HeadArrays<ConstArray>& in, ConstArray dout,
                const float* statistics, const HeadArrays<Array>& gradients, void* memory,
                CudaStream stream) {
  if (s.head_dim == 64) {
    return backward<T, 64>(s, in, dout, statistics, gradients, memory, stream);
  }
  return backward<T, 128>(s, in, dout, statistics, gradients, memory, stream);
}

}  // namespace

bool fits_hopper_gradient(const AttentionShape& s, const HeadArrays<ConstArray>& in,
                          ConstArray dout) {
  return fits_hopper(s, in) && reinterpret_cast<std::uintptr_t>(dout.data) % 16 == 0 &&
         Pieces<128>::bytes <= static_cast<int>(shared_bytes_max());
}

int hopper_backward(const AttentionShape& s, const HeadArrays<ConstArray>& in, ConstArray dout,
                    const float* statistics, const HeadArrays<Array>& gradients, void* memory,
                    CudaStream stream) {
  if (s.dtype == DType::float16) {
    return backward_of<Float16>(s, in, dout, statistics, gradients, memory, stream);
  }
  return backward_of<BFloat16>(s, in, dout, statistics, gradients, memory, stream);
}

}  // namespace tessera::device
