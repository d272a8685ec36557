// SPDX-License-Identifier: Apache-2.0
// What an adapter adds to y = x W^T: scale x A^T B^T (tessera/lora.h), with its gradients.
#pragma once

#include "training/language/affine.h"

namespace tessera::language {

struct AdapterSlots {
  Slot down, up;          // A [rank, in], B [out, rank]
  std::int64_t rank = 0;  // 0: the layer has no adapter
  float scale = 1;

  /// Beside rows [first, first + count) of the layer's matrix alone: A is shared.
  AdapterSlots rows(std::int64_t first, std::int64_t count) const {
    AdapterSlots out = *this;
    out.up = up.part(first * rank, count * rank);
    return out;
  }
};

class Adapter {
 public:
  /// `base`: the layer beside which it stands. Fails: what MathPlan::prepare fails with.
  static Result<Adapter> prepare(kernels::MathPlan& plan, const Shape& shape,
                                 const AffineShape& base, const AdapterSlots& slots);

  bool exists() const { return slots_.rank > 0; }
  /// Elements of what forward saves, and of what backward needs besides: scale x A^T, in the dtype
  /// of the products.
  std::int64_t numel() const { return rows_ * slots_.rank; }
  /// Elements of the larger matrix; 0: none.
  std::int64_t matrix_numel() const { return matrix_; }
  /// y += what it adds. `weights` has room for either matrix.
  void forward(const Call& call, kernels::ConstArray x, const Weights& weights,
               kernels::Array saved, kernels::Array y) const;
  /// Adds to the gradients of both matrices, and to dx.
  void backward(const Call& call, kernels::ConstArray x, kernels::ConstArray dy,
                const Weights& weights, kernels::ConstArray saved, kernels::Array temporary,
                kernels::Array dx) const;

 private:
  AdapterSlots slots_;
  std::int64_t rows_ = 0, matrix_ = 0;
  Affine down_, up_;
};

}  // namespace tessera::language
