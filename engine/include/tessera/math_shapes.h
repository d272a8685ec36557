// SPDX-License-Identifier: Apache-2.0
// Sizes and operands of the operations in math.h: how matrices and heads lie in memory, and which
// rows an operation reads and writes.
#pragma once

#include <compare>

#include "tessera/math_arrays.h"

namespace tessera::kernels {

/// A matrix as it lies in memory; `stride`: from one row to the next, in elements.
struct StoredRows {
  std::int64_t count = 1, width = 1, stride = 1;

  /// From the first element to the last, with what lies between the rows.
  constexpr std::int64_t extent() const { return (count - 1) * stride + width; }
};

/// Whether a product's operands become numbers of 8 bits (e4m3) before they are multiplied, each
/// divided by a power of two that it shares with its neighbours: 128 along k do, of one row of A or
/// one column of B; with `weight` 128 x 128 of B. Sums are float32, as always.
enum class Fp8 : std::uint8_t { none, tiles, weight };

/// Numbers that share a scale, in a matrix as it lies in memory.
struct ScaleTile {
  std::int64_t rows = 1, columns = 1;
};

/// A is m x k, B is k x n, C is m x n; a stride is the distance of two rows as they lie in memory.
struct MatmulShape {
  std::int64_t m = 1, n = 1, k = 1;
  DType input = DType::float32;                           // of A and B
  DType output = DType::float32;                          // of C
  bool a_transposed = false;                              // in memory it is k x m
  bool b_transposed = false;                              // in memory it is n x k
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // 0: rows follow each other
  bool bias = false;                                      // n numbers, of any type
  bool add = false;                                       // C += A B
  Fp8 fp8 = Fp8::none;
  auto operator<=>(const MatmulShape&) const = default;

  constexpr StoredRows a_rows() const {
    return a_transposed ? stored(k, m, a_stride) : stored(m, k, a_stride);
  }
  constexpr StoredRows b_rows() const {
    return b_transposed ? stored(n, k, b_stride) : stored(k, n, b_stride);
  }
  constexpr StoredRows c_rows() const { return stored(m, n, c_stride); }

  static constexpr std::int64_t scaled_together = 128;
  constexpr ScaleTile a_tile() const { return along_k(a_transposed); }
  constexpr ScaleTile b_tile() const {
    return fp8 == Fp8::weight ? ScaleTile{scaled_together, scaled_together}
                              : along_k(!b_transposed);
  }

 private:
  static constexpr ScaleTile along_k(bool down) {
    return down ? ScaleTile{scaled_together, 1} : ScaleTile{1, scaled_together};
  }
  static constexpr StoredRows stored(std::int64_t count, std::int64_t width, std::int64_t stride) {
    return {count, width, stride == 0 ? width : stride};
  }
};

struct AttentionShape {
  std::int64_t batch = 1, length = 1, heads = 1, kv_heads = 1, head_dim = 1;
  DType dtype = DType::float32;
  std::int64_t q_stride = 0, kv_stride = 0;  // from one token to the next, in elements
  std::int64_t window = 0;  // the most keys that a query sees, its own included; 0: all before it
  float scale = 0;          // of scores; 0: 1 / sqrt(head_dim)
  float cap = 0;            // scaled scores s become cap tanh(s / cap); 0: none. On CPUs only.
  auto operator<=>(const AttentionShape&) const = default;

  constexpr std::int64_t rows() const { return batch * heads * length; }
  constexpr std::int64_t out_stride() const { return heads * head_dim; }
  /// The first key that the query at place `t` sees.
  constexpr std::int64_t first_seen(std::int64_t t) const {
    return window > 0 && t >= window ? t + 1 - window : 0;
  }
};

/// Elements that an operation drops: `share` of them, chosen by all that follows and the place of
/// an element (training/kernels/dropout.h).
struct Dropout {
  float share = 0;                // below 1
  std::uint64_t key = 0;          // of seed and step
  std::uint32_t place = 0;        // the operation's, in the model
  std::int64_t first_sample = 0;  // the number of the batch's first sequence, within the step
};

/// q, k, v or their gradients: tokens of heads side by side.
template <class A>
struct HeadArrays {
  A q, k, v;
  /// Per token the first place of its sequence that it may attend to, where its document begins;
  /// null: 0. On CPUs only.
  const std::int32_t* begins = nullptr;
  const Dropout* dropout = nullptr;  // of the weights, after the softmax; null: none. On CPUs only.
};

/// The output of attention and the gradient of that output.
struct AttentionOut {
  ConstArray values, gradient;
};

/// Memory of the sizes MathPlan::temporary and MathPlan::scratch.
struct AttentionMemory {
  void* temporary = nullptr;
  void* scratch = nullptr;
};

struct NormShape {
  std::int64_t rows = 1, width = 1;
  bool centred = true;  // LayerNorm; false: RMSNorm
  float epsilon = 1e-5F;
};

/// Where sums of columns go: each is added to an element of `gradient`, none if that is null.
struct ColumnGradient {
  Array gradient;
  float* sums = nullptr;    // as many numbers as columns, which may hold anything before and after
  void* scratch = nullptr;  // MathPlan::scratch()
};

/// The same of a norm: `sums` are 2 * width numbers.
struct NormGradients {
  Array weight, bias;
  float* sums = nullptr;
  void* scratch = nullptr;
};

/// Tokens of a batch: their ids, and their places sorted by (id, place).
struct TokenRows {
  const std::int32_t* ids = nullptr;
  const std::int32_t* by_id = nullptr;
  std::int64_t count = 0;
  std::int32_t skipped = -1;  // scatter_rows leaves the row of this id as it is
};

/// `batch` sequences of `length` rows.
struct Positions {
  std::int64_t batch = 1, length = 1, width = 1;
  /// Per row its place in the table; null: its number within its sequence. On CPUs only.
  const std::int32_t* places = nullptr;
};

/// Cosines and sines for `length` positions: row t has `half` of each.
struct RotaryRows {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  std::int64_t half = 0;
  std::int64_t length = 0;
  std::int64_t head_dim = 0;  // 0: 2 half; the elements of a head beyond that stay. On CPUs only.
};

}  // namespace tessera::kernels
