// SPDX-License-Identifier: Apache-2.0
// The arithmetic of language models, on memory of a CPU (loops, oneDNN) or of a GPU (kernels).
//
// The idea: a call names whole arrays, so the cost of choosing a backend by a virtual call
// vanishes. Calls are carried out in order: on a CPU they are done on return, on a GPU they are
// queued on the stream of the body that makes them. The memory that they take is known before
// anything runs.
//
//   TESSERA_TRY(plan.prepare(shape));                            // once
//   math.product(shape, a, b, c, bias, scratch);                 // plan.scratch() bytes
//
// Numbers are computed in float32 and rounded once, when they are stored. Sums have a fixed order.
#pragma once

#include "tessera/activation.h"
#include "tessera/math_arrays.h"
#include "tessera/math_shapes.h"
#include "tessera/status.h"

namespace tessera::kernels {

/// Arithmetic that takes each number, or each column, by itself. Arrays are disjoint unless said
/// otherwise, here and below; scratch and temporary memory may hold anything before a call.
class ArrayMath {
 public:
  virtual ~ArrayMath() = default;

  virtual void clear(Array values, std::int64_t numel) = 0;
  /// to = from, whatever the types.
  virtual void convert(ConstArray from, Array to, std::int64_t numel) = 0;
  /// to += from.
  virtual void accumulate(const float* from, Array to, std::int64_t numel) = 0;
  /// to = a * b; `to` may be one of them.
  virtual void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) = 0;
  /// values *= factor.
  virtual void scale(Array values, float factor, std::int64_t numel) = 0;
  /// gradient[c] += the sum of column c of `rows` x `width` numbers.
  virtual void add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                               const ColumnGradient& to) = 0;
  /// `convert` and `multiply` of `rows` x `width` numbers, then add_column_sums of what they gave.
  virtual void convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                            const ColumnGradient& sums) = 0;
  virtual void multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows,
                             std::int64_t width, const ColumnGradient& sums) = 0;
  /// to[0] = the mean of `values`, of which it may be one.
  virtual void mean(const float* values, std::int64_t numel, float* to) = 0;
  /// y = f(x); x becomes f'(x), f being `kind`.
  virtual void activate(Activation kind, Array x, Array y, std::int64_t numel) = 0;
  /// y = f(gate) * up. gate becomes f(gate); up becomes up * f'(gate).
  virtual void activate_gated(Activation kind, Array gate, Array up, Array y,
                              std::int64_t numel) = 0;
};

/// Arithmetic on rows: one row is one token, or one position of a sequence.
class RowMath {
 public:
  virtual ~RowMath() = default;

  /// x[n] = table[ids[n]] for rows of `width`. REQUIRES: ids inside of the table.
  virtual void gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width,
                           float* x) = 0;
  /// gradient[ids[n]] += dx[n], in the order of n; but for the id that is skipped.
  virtual void scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width,
                            Array gradient) = 0;
  /// x[b, t] += table[t], or the table's row of that place.
  virtual void add_positions(ConstArray table, const Positions& shape, float* x) = 0;
  /// gradient[t] += the sum of dx[b, t] over b. REQUIRES: no places; scatter_rows sums by them.
  virtual void sum_positions(const float* dx, const Positions& shape, Array gradient) = 0;

  /// y = normal(x) * weight + bias, where normal(x) = (x - mean) * reciprocal. `bias` may be null.
  virtual void norm_forward(const NormShape& shape, const float* x, ConstArray weight,
                            ConstArray bias, Array y, Array normal, float* reciprocal) = 0;
  /// dx += the gradient of the input; those of weight and bias are added to `gradients`.
  virtual void norm_backward(const NormShape& shape, const float* dy, ConstArray weight,
                             ConstArray normal, const float* reciprocal, float* dx,
                             const NormGradients& gradients) = 0;

  /// Rotates the heads of rows [b, t] in place; `inverse`: back, which is the gradient.
  virtual void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
                      bool inverse) = 0;

  /// gradient = (softmax - one-hot) * scale, which may take the place of the logits and lies in
  /// memory as they do; losses[r] = the row's cross entropy in nats. A row without a target (any
  /// below 0) has neither: both are 0. A target beyond the width makes the loss NaN, and nothing is
  /// read there.
  virtual void cross_entropy(const StoredRows& rows, const float* logits,
                             const std::int32_t* targets, float scale, Array gradient,
                             float* losses) = 0;
};

/// All arithmetic of a model: that of arrays and rows, and the products whose shapes a MathPlan
/// has prepared.
class Math : public ArrayMath, public RowMath {
 public:
  /// C = A B, or as the shape says. REQUIRES: prepared; `bias` only if the shape has one.
  virtual void product(const MatmulShape& shape, const void* a, const void* b, void* c,
                       ConstArray bias, void* scratch) = 0;

  /// statistics: 2 * shape.rows() numbers, for backward. REQUIRES: prepared.
  virtual void attention_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                                 Array out, float* statistics, const AttentionMemory& memory) = 0;
  /// Writes the gradients of q, k and v, all of them.
  virtual void attention_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                                  const AttentionOut& out, const float* statistics,
                                  const HeadArrays<Array>& gradients,
                                  const AttentionMemory& memory) = 0;
};

/// The memory that the calls of a model take: `prepare` names the shapes, then sizes can be asked.
class MathPlan {
 public:
  virtual ~MathPlan() = default;
  /// Fails: not_supported, naming the sizes.
  virtual Status prepare(const MatmulShape& shape) = 0;
  virtual Status prepare(const AttentionShape& shape) = 0;
  /// The scratch memory that suffices for each prepared call, one after another. It must be aligned
  /// to 64 bytes.
  virtual Bytes scratch() const = 0;
  /// The temporary memory of attention, besides its scratch memory.
  virtual Bytes temporary(const AttentionShape& shape, bool backward) const = 0;
  /// The number of rows of logits that exist at a time.
  virtual std::int64_t logits_rows() const = 0;
  /// From one row of `vocabulary` logits, or of their gradient, to the next, in elements.
  virtual std::int64_t logits_stride(std::int64_t vocabulary) const { return vocabulary; }
};

}  // namespace tessera::kernels
