// SPDX-License-Identifier: Apache-2.0
// Counts what the kernels of a GPU launch, read, write and compute, without running them.
//
// The idea: the code that launches kernels is the real one, compiled for the emulator, which only
// counts. So launches are exact; bytes are those of each array once, FLOPs those of the formulas of
// products and of attention.
#pragma once

#include <map>
#include <string>

#include "engine/backends/cuda/module/kernel_math.h"
#include "tests/training/kernels/emulator/cuda_runtime.h"

namespace tessera::test {

struct KernelCount {
  std::int64_t launches = 0;
  double bytes = 0, flops = 0;
};
using KernelCounts = std::map<std::string, KernelCount>;

class CountedMath final : public kernels::Math {
 public:
  using Array = kernels::Array;
  using ConstArray = kernels::ConstArray;

  CountedMath() { launched().only_counts = true; }
  CountedMath(const CountedMath&) = delete;
  CountedMath& operator=(const CountedMath&) = delete;
  ~CountedMath() override { launched() = {}; }

  const KernelCounts& counts() const { return counts_; }
  std::int64_t launches() const;
  /// Adds what `f` launches under a name.
  template <class F>
  void count(const std::string& name, double bytes, double flops, const F& f) {
    const device::emulator::Launched before = launched();
    f();
    KernelCount& to = counts_[name];
    to.launches += launched().kernels - before.kernels + launched().memsets - before.memsets;
    to.bytes += bytes;
    to.flops += flops;
  }

  void clear(Array values, std::int64_t numel) override;
  void convert(ConstArray from, Array to, std::int64_t numel) override;
  void accumulate(const float* from, Array to, std::int64_t numel) override;
  void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel) override;
  void scale(Array values, float factor, std::int64_t numel) override;
  void add_column_sums(ConstArray from, std::int64_t rows, std::int64_t width,
                       const kernels::ColumnGradient& to) override;
  void convert_rows(ConstArray from, Array to, std::int64_t rows, std::int64_t width,
                    const kernels::ColumnGradient& sums) override;
  void multiply_rows(ConstArray a, ConstArray b, Array to, std::int64_t rows, std::int64_t width,
                     const kernels::ColumnGradient& sums) override;
  void mean(const float* values, std::int64_t numel, float* to) override;
  void activate(Activation kind, Array x, Array y, std::int64_t numel) override;
  void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel) override;
  void gather_rows(ConstArray table, const kernels::TokenRows& rows, std::int64_t width,
                   float* x) override;
  void scatter_rows(const float* dx, const kernels::TokenRows& rows, std::int64_t width,
                    Array gradient) override;
  void add_positions(ConstArray table, const kernels::Positions& shape, float* x) override;
  void sum_positions(const float* dx, const kernels::Positions& shape, Array gradient) override;
  void norm_forward(const kernels::NormShape& shape, const float* x, ConstArray weight,
                    ConstArray bias, Array y, Array normal, float* reciprocal) override;
  void norm_backward(const kernels::NormShape& shape, const float* dy, ConstArray weight,
                     ConstArray normal, const float* reciprocal, float* dx,
                     const kernels::NormGradients& gradients) override;
  void rotate(const kernels::RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads,
              bool inverse) override;
  void cross_entropy(const kernels::StoredRows& rows, const float* logits,
                     const std::int32_t* targets, float scale, Array gradient,
                     float* losses) override;
  void product(const kernels::MatmulShape& shape, const void* a, const void* b, void* c,
               ConstArray bias, void* scratch) override;
  void attention_forward(const kernels::AttentionShape& shape,
                         const kernels::HeadArrays<ConstArray>& in, Array out, float* statistics,
                         const kernels::AttentionMemory& memory) override;
  void attention_backward(const kernels::AttentionShape& shape,
                          const kernels::HeadArrays<ConstArray>& in,
                          const kernels::AttentionOut& out, const float* statistics,
                          const kernels::HeadArrays<Array>& gradients,
                          const kernels::AttentionMemory& memory) override;

 private:
  static device::emulator::Launched& launched() { return device::emulator::launched; }

  std::unique_ptr<DeviceMath> real_ = make();
  static std::unique_ptr<DeviceMath> make();
  KernelCounts counts_;
};

}  // namespace tessera::test
