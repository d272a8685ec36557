// SPDX-License-Identifier: Apache-2.0
// y = x W + b with its gradients.
#pragma once

#include "training/language/layer.h"

namespace tessera::language {

struct AffineShape {
  std::int64_t rows = 1, in = 1, out = 1;
  bool out_in = false;  // the weight is [out, in] (Linear); false: [in, out] (Conv1D)
  bool bias = false;
  bool residual = false;        // y is float32 and added to
  bool adds = false;            // y is added to, whatever it is
  bool fp8 = false;             // operands are rounded (kernels::Fp8)
  std::int64_t out_stride = 0;  // from one row of y, and of dy, to the next; 0: out
};

class Affine {
 public:
  /// Fails: what MathPlan::prepare fails with.
  static Result<Affine> prepare(kernels::MathPlan& plan, const Shape& shape,
                                const AffineShape& own);

  void forward(const Call& call, kernels::ConstArray x, const void* weight,
               kernels::ConstArray bias, kernels::Array y) const;
  /// dx = dy W^T, or dx += dy W^T.
  void input_gradient(const Call& call, kernels::ConstArray dy, const void* weight,
                      kernels::Array dx, bool add = false) const;
  /// gradient += x^T dy; nothing if there is none.
  void weight_gradient(const Call& call, kernels::ConstArray x, kernels::ConstArray dy,
                       kernels::Array gradient) const;

 private:
  kernels::MatmulShape forward_;
  kernels::MatmulShape input_;   // dx in float32
  kernels::MatmulShape weight_;  // the gradient in float32
  bool out_in_ = false;
};

}  // namespace tessera::language
