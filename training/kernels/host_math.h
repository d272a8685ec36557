// SPDX-License-Identifier: Apache-2.0
// Math on the CPU, by this folder's functions.
#pragma once

#include <map>
#include <vector>

#include "tessera/math.h"
#include "training/kernels/attention.h"

namespace tessera::kernels {

class HostMath final : public Math, public MathPlan {
 public:
  /// The owner of scratch and temporary memory: the caller, who gives it to each call, or this
  /// object. `own` is for callers that planned for another Math; then nothing must be prepared.
  enum class Memory { given, own };
  explicit HostMath(int threads, Memory memory = Memory::given)
      : threads_(threads), memory_(memory), in_attention_(threads) {}

  void clear(Array values, std::int64_t numel) override;
  void convert(ConstArray from, Array to, std::int64_t numel) override;
  void accumulate(const float* from, Array to, std::int64_t numel) override;
  void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) override;
  void scale(Array values, float factor, std::int64_t numel) override;
  void add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                       const ColumnGradient& to) override;
  void convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                    const ColumnGradient& sums) override;
  void multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                     const ColumnGradient& sums) override;
  void mean(const float* values, std::int64_t numel, float* to) override;
  void gather_rows(ConstArray table, const TokenRows& rows, std::int64_t width, float* x) override;
  void scatter_rows(const float* dx, const TokenRows& rows, std::int64_t width,
                    Array gradient) override;
  void add_positions(ConstArray table, const Positions& shape, float* x) override;
  void sum_positions(const float* dx, const Positions& shape, Array gradient) override;
  void norm_forward(const NormShape& shape, const float* x, ConstArray weight, ConstArray bias,
                    Array y, Array normal, float* reciprocal) override;
  void norm_backward(const NormShape& shape, const float* dy, ConstArray weight, ConstArray normal,
                     const float* reciprocal, float* dx, const NormGradients& gradients) override;
  void activate(Activation kind, Array x, Array y, std::int64_t numel) override;
  void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel) override;
  void rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
              bool inverse) override;
  void cross_entropy(const StoredRows& rows, const float* logits, const std::int32_t* targets,
                     float scale, Array gradient, float* losses) override;
  void product(const MatmulShape& shape, const void* a, const void* b, void* c, ConstArray bias,
               void* scratch) override;
  void attention_forward(const AttentionShape& shape, const HeadArrays<ConstArray>& in, Array out,
                         float* statistics, const AttentionMemory& memory) override;
  void attention_backward(const AttentionShape& shape, const HeadArrays<ConstArray>& in,
                          const AttentionOut& out, const float* statistics,
                          const HeadArrays<Array>& gradients,
                          const AttentionMemory& memory) override;

  /// Fails: not_supported, naming the sizes; also where the build has no oneDNN.
  Status prepare(const MatmulShape& shape) override;
  Status prepare(const AttentionShape& shape) override;
  Bytes scratch() const override;
  Bytes temporary(const AttentionShape& shape, bool backward) const override;
  std::int64_t logits_rows() const override { return 128; }

 private:
  Bytes scratch_per_thread() const;  // the part of attention's scratch memory that a thread uses
  const Attention& attention(const AttentionShape& shape);
  /// Returns `given`, or this object's memory if it owns it.
  AttentionMemory memory(Bytes temporary, const AttentionMemory& given);
  /// The numbers in float32: at `place` of this object's memory, which it must own, if they are
  /// not.
  const float* widened(ConstArray values, std::int64_t numel, std::size_t place);

  const int threads_;
  const Memory memory_;
  Matmuls products_{1};
  Matmuls in_attention_;  // products inside attention, which run on all threads at the same time
  std::map<AttentionShape, Attention> attentions_;
  std::vector<std::byte> own_;
  std::vector<float> widened_[2];
};

}  // namespace tessera::kernels
