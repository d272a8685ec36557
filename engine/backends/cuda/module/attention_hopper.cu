// SPDX-License-Identifier: Apache-2.0
// Causal attention on Hopper (FlashAttention-3, arXiv 2407.08608): one warp fetches keys and
// values, two groups of four warps have 64 queries each. While a group's products of one tile of
// keys run, it turns the scores of the tile before into weights.
#include "engine/backends/cuda/module/hopper_tiles.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/softmax_tiles.h"

namespace tessera::device {
namespace {

constexpr int own_rows = 64 * consumers;  // queries of a block
constexpr int key_rows = 128;             // of a tile
static_assert(own_rows == key_rows, "one tile of keys is cut by the diagonal");

// What the block keeps in shared memory. Rows of more than 64 columns are several matrices.
template <class T, int D>
struct Rooms {
  static constexpr int chunks = D / swizzle_columns;
  static constexpr int chunk_bytes = key_rows * swizzle_columns * static_cast<int>(sizeof(T));
  static constexpr int tile_bytes = chunks * chunk_bytes;
  static constexpr int bytes = tile_bytes * (1 + 2 * stages) + swizzle_bytes + 256;

  unsigned char* base;

  __device__ Rooms() : base(swizzled_memory()) {}
  __device__ unsigned char* queries() const { return base; }
  __device__ unsigned char* keys(int stage) const { return base + (1 + stage) * tile_bytes; }
  __device__ unsigned char* values(int stage) const { return keys(stages + stage); }
  // Queries are there; keys and values are, by stage; both have been read.
  __device__ Barrier* barrier(int number) const {
    return reinterpret_cast<Barrier*>(base + (1 + 2 * stages) * tile_bytes) + number;
  }
  __device__ Barrier* have_queries() const { return barrier(0); }
  __device__ Barrier* have_keys(int stage) const { return barrier(1 + stage); }
  __device__ Barrier* have_values(int stage) const { return barrier(1 + stages + stage); }
  __device__ Barrier* read_keys(int stage) const { return barrier(1 + 2 * stages + stage); }
  __device__ Barrier* read_values(int stage) const { return barrier(1 + 3 * stages + stage); }

  __device__ void begin() const {
    begin_barrier(have_queries(), 1);
    for (int s = 0; s < stages; ++s) {
      begin_barrier(have_keys(s), 1);
      begin_barrier(have_values(s), 1);
      begin_barrier(read_keys(s), consumers * group_warps);
      begin_barrier(read_values(s), consumers * group_warps);
    }
  }
  __device__ void load(unsigned char* to, const TensorMap& map, Barrier* barrier,
                       const TileRows& from) const {
    arrive_expecting(barrier, tile_bytes);
    load_tile<D>(to, map, key_rows, barrier, from);
  }
};

struct Where {
  int tile, head, kv_head, sequence;
};

// From the diagonal down to the first keys: as the others take them.
template <class T, int D>
__device__ void fetch(const Rooms<T, D>& rooms, const TensorMap& q, const TensorMap& k,
                      const TensorMap& v, const Where& at) {
  rooms.load(rooms.queries(), q, rooms.have_queries(), {at.head, at.tile * own_rows, at.sequence});
  for (int n = 0; n <= at.tile; ++n) {
    const Turn turn(n);
    const TileRows rows{at.kv_head, (at.tile - n) * key_rows, at.sequence};
    wait_for_phase(rooms.read_keys(turn.stage), turn.phase ^ 1U);
    rooms.load(rooms.keys(turn.stage), k, rooms.have_keys(turn.stage), rows);
    wait_for_phase(rooms.read_values(turn.stage), turn.phase ^ 1U);
    rooms.load(rooms.values(turn.stage), v, rooms.have_values(turn.stage), rows);
  }
}

// A group's 64 rows: products of the queries with keys, and of weights with values.
template <class T, int D>
struct Group {
  static constexpr int key_eights = key_rows / 8;

  Rooms<T, D> rooms;
  int number;

  // Begins scores = queries keys'.
  __device__ void multiply_keys(float (&scores)[key_eights][4], int tile) const {
    const Turn turn(tile);
    wait_for_phase(rooms.have_keys(turn.stage), turn.phase);
    const std::uint64_t rows = matrix_of(rooms.queries() + number * 64 * 128);
    const std::uint64_t keys = matrix_of(rooms.keys(turn.stage));
    hold(scores);
    begin_products();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      const int at = k / 4 * Rooms<T, D>::chunk_bytes + k % 4 * 32;
      multiply_shared<T>(scores, further(rows, at), further(keys, at), k > 0);
    }
    end_products();
  }

  // Begins sums += weights values.
  __device__ void multiply_values(float (&sums)[D / 8][4],
                                  const unsigned (&weights)[key_rows / 16][4], int tile) const {
    const Turn turn(tile);
    wait_for_phase(rooms.have_values(turn.stage), turn.phase);
    const std::uint64_t values = matrix_of(rooms.values(turn.stage), Rooms<T, D>::chunk_bytes);
    hold(sums);
    begin_products();
#pragma unroll
    for (int k = 0; k < key_rows / 16; ++k) {
      multiply_kept<T>(sums, weights[k], further(values, k * 2 * swizzle_bytes));
    }
    end_products();
  }

  __device__ void free_keys(int tile) const { free_tile(rooms.read_keys(Turn(tile).stage)); }
  __device__ void free_values(int tile) const { free_tile(rooms.read_values(Turn(tile).stage)); }
};

template <class T, int D>
__device__ void attend(const Rooms<T, D>& rooms, const AttentionShape& s, const Where& at, T* out,
                       float* statistics, float scale) {
  const Place place(at.tile, own_rows / tile_rows);
  const int group_number = same_in_warp(static_cast<int>(threadIdx.x) / group_threads - 1);
  const Group<T, D> group{rooms, group_number};
  constexpr int eights = Group<T, D>::key_eights;
  // Of this warp among the block's; a tile of keys begins where the queries do.
  const int row = group_number * 64 + static_cast<int>(threadIdx.x) % group_threads / 32 * 16;
  float sums[D / 8][4] = {};
  float p[eights][4];
  unsigned weights[eights / 2][4];
  Softmax<eights> softmax;
  float shrink[2];
  wait_for_phase(rooms.have_queries(), 0);
  group.multiply_keys(p, 0);
  wait_for_products<0>();
  hold(p);
  group.free_keys(0);
  mask(p, place, row, 0);
  softmax.take(p, shrink, scale * log2_e);
  round_pairs<T>(weights, p);
  for (int n = 1; n <= at.tile; ++n) {
    group.multiply_keys(p, n);
    group.multiply_values(sums, weights, n - 1);
    wait_for_products<1>();
    hold(p);
    group.free_keys(n);
    softmax.take(p, shrink, scale * log2_e);
    wait_for_products<0>();
    hold(sums);
    group.free_values(n - 1);
#pragma unroll
    for (int k = 0; k < D / 8; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[k][i] *= shrink[i / 2];
    }
    round_pairs<T>(weights, p);
  }
  group.multiply_values(sums, weights, at.tile);
  wait_for_products<0>();
  hold(sums);
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    inverse[half] = 1.0F / row_sum(softmax.sum[half]);
    const std::int64_t t = place.first + row + place.group + 8 * half;
    if (place.pair != 0 || t >= s.length) continue;
    float* const to = statistics + 2 * ((place.batch * s.heads + place.head) * s.length + t);
    to[0] = softmax.most[half] * scale;
    to[1] = inverse[half];
  }
  store_rows<D>(sums, inverse, out + out_offset(s, place.batch, place.head, place.first),
                s.out_stride(), row, s.length - place.first, s.head_dim);
}

template <class T, int D>
__global__ void __launch_bounds__(hopper_block, 1)
    hopper_forward_kernel(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                          const __grid_constant__ TensorMap v, AttentionShape s, T* out,
                          float* statistics, float scale) {
  const Rooms<T, D> rooms;
  const Where at{static_cast<int>(gridDim.x - 1 - blockIdx.x),  // the longest first
                 static_cast<int>(blockIdx.y),
                 static_cast<int>(blockIdx.y / (s.heads / s.kv_heads)),
                 static_cast<int>(blockIdx.z)};
  if (threadIdx.x == 0) rooms.begin();
  __syncthreads();
  if (threadIdx.x < group_threads) {
    keep_registers<24>();
    if (threadIdx.x == 0) fetch(rooms, q, k, v, at);
  } else {
    take_registers<240>();
    attend(rooms, s, at, out, statistics, scale);
  }
}

template <class T, int D>
int forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, T* out, float* statistics,
            CudaStream stream) {
  TensorMap q, k, v;
  int code = make_map(boxes_of(s, in.q.data, s.heads, s.q_stride, own_rows), q);
  if (code == 0) {
    code = make_map(boxes_of(s, in.k.data, s.kv_heads, s.kv_stride, key_rows), k);
  }
  if (code == 0) {
    code = make_map(boxes_of(s, in.v.data, s.kv_heads, s.kv_stride, key_rows), v);
  }
  if (code != 0) return code;
  const dim3 blocks(static_cast<unsigned>((s.length + own_rows - 1) / own_rows),
                    static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch));
  return launch(hopper_forward_kernel<T, D>, {blocks, hopper_block, Rooms<T, D>::bytes}, stream, q,
                k, v, s, out, statistics, scale_of(s));
}

template <class T>
int forward_of(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
               float* statistics, CudaStream stream) {
  if (s.head_dim == 64) return forward<T, 64>(s, in, out.as<T>(), statistics, stream);
  return forward<T, 128>(s, in, out.as<T>(), statistics, stream);
}

}  // namespace

bool fits_hopper(const AttentionShape& s, const HeadArrays<ConstArray>& in) {
  const auto aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  return has_wgmma() && s.dtype != DType::float32 && (s.head_dim == 64 || s.head_dim == 128) &&
         s.q_stride % 8 == 0 && s.kv_stride % 8 == 0 && aligned(in.q.data) && aligned(in.k.data) &&
         aligned(in.v.data) && Rooms<BFloat16, 128>::bytes <= shared_bytes_max();
}

int hopper_forward(const AttentionShape& s, const HeadArrays<ConstArray>& in, Array out,
                   float* statistics, CudaStream stream) {
  if (s.dtype == DType::float16) return forward_of<Float16>(s, in, out, statistics, stream);
  return forward_of<BFloat16>(s, in, out, statistics, stream);
}

}  // namespace tessera::device
