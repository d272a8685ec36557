// SPDX-License-Identifier: Apache-2.0
#include "engine/train/language/affine.h"

namespace tessera::language {

Result<Affine> Affine::prepare(kernels::Matmuls& matmuls, const Shape& shape,
                               const AffineShape& own) {
  Affine out;
  out.out_in_ = own.out_in;
  const DType type = shape.dtype;
  TESSERA_ASSIGN(out.forward_, matmuls.prepare({.m = own.rows,
                                                .n = own.out,
                                                .k = own.in,
                                                .input = type,
                                                .output = own.residual ? DType::float32 : type,
                                                .b_transposed = own.out_in,
                                                .bias = own.bias,
                                                .add = own.residual}));
  kernels::MatmulShape back{
      .m = own.rows, .n = own.in, .k = own.out, .input = type, .b_transposed = !own.out_in};
  for (const bool add : {false, true}) {
    back.add = add;
    TESSERA_ASSIGN(out.input_full_[add], matmuls.prepare(back));
  }
  back.add = false;
  back.output = type;
  TESSERA_ASSIGN(out.input_half_, matmuls.prepare(back));
  kernels::MatmulShape sum{.m = own.out_in ? own.out : own.in,
                           .n = own.out_in ? own.in : own.out,
                           .k = own.rows,
                           .input = type,
                           .a_transposed = true,
                           .add = true};
  TESSERA_ASSIGN(out.weight_full_, matmuls.prepare(sum));
  sum.output = type;
  TESSERA_ASSIGN(out.weight_half_, matmuls.prepare(sum));
  return out;
}

void Affine::forward(const Call& call, kernels::ConstArray x, const void* weight, const float* bias,
                     kernels::Array y) const {
  forward_->run(x.data, weight, y.data, bias, call.work.scratch);
  call.poll();
}

void Affine::input_gradient(const Call& call, kernels::ConstArray dy, const void* weight,
                            kernels::Array dx, bool add) const {
  const bool full = dx.dtype == DType::float32;
  TESSERA_ASSERT(full || !add, "sums are float32");
  const kernels::Matmul* product = full ? input_full_[add] : input_half_;
  product->run(dy.data, weight, dx.data, nullptr, call.work.scratch);
  call.poll();
}

void Affine::weight_gradient(const Call& call, kernels::ConstArray x, kernels::ConstArray dy,
                             kernels::Array gradient) const {
  if (gradient.data == nullptr) return;
  const kernels::Matmul* product = gradient.dtype == DType::float32 ? weight_full_ : weight_half_;
  TESSERA_ASSERT(product != weight_half_ || dy.dtype == gradient.dtype,
                 "gradients in bfloat16 need LanguageModelOptions::dtype bfloat16");
  const void* a = out_in_ ? dy.data : x.data;
  const void* b = out_in_ ? x.data : dy.data;
  product->run(a, b, gradient.data, nullptr, call.work.scratch);
  call.poll();
}

}  // namespace tessera::language
