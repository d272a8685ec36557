// SPDX-License-Identifier: Apache-2.0
#include "training/language/affine.h"

namespace tessera::language {
namespace {

kernels::MatmulShape with(kernels::MatmulShape shape, DType output, bool add) {
  shape.output = output;
  shape.add = add;
  return shape;
}

}  // namespace

Result<Affine> Affine::prepare(kernels::MathPlan& plan, const Shape& shape,
                               const AffineShape& own) {
  Affine out;
  out.out_in_ = own.out_in;
  const DType type = shape.dtype;
  const kernels::Fp8 by_weight = own.fp8 ? kernels::Fp8::weight : kernels::Fp8::none;
  out.forward_ = {.m = own.rows,
                  .n = own.out,
                  .k = own.in,
                  .input = type,
                  .output = own.residual ? DType::float32 : type,
                  .b_transposed = own.out_in,
                  .c_stride = own.out_stride,
                  .bias = own.bias,
                  .add = own.residual || own.adds,
                  .fp8 = by_weight};
  out.input_ = {.m = own.rows,
                .n = own.in,
                .k = own.out,
                .input = type,
                .b_transposed = !own.out_in,
                .a_stride = own.out_stride,
                .fp8 = by_weight};
  out.weight_ = {.m = own.out_in ? own.out : own.in,
                 .n = own.out_in ? own.in : own.out,
                 .k = own.rows,
                 .input = type,
                 .a_transposed = true,
                 .a_stride = own.out_in ? own.out_stride : 0,
                 .b_stride = own.out_in ? 0 : own.out_stride,
                 .add = true,
                 .fp8 = own.fp8 ? kernels::Fp8::tiles : kernels::Fp8::none};
  for (const kernels::MatmulShape& product :
       {out.forward_, out.input_, with(out.input_, DType::float32, true),
        with(out.input_, type, false), out.weight_, with(out.weight_, type, true)}) {
    TESSERA_TRY(plan.prepare(product));
  }
  return out;
}

void Affine::forward(const Call& call, kernels::ConstArray x, const void* weight,
                     kernels::ConstArray bias, kernels::Array y) const {
  call.math->product(forward_, x.data, weight, y.data, bias, call.work.scratch);
  call.poll();
}

void Affine::input_gradient(const Call& call, kernels::ConstArray dy, const void* weight,
                            kernels::Array dx, bool add) const {
  TESSERA_ASSERT(dx.dtype == DType::float32 || !add, "sums are float32");
  call.math->product(with(input_, dx.dtype, add), dy.data, weight, dx.data, {}, call.work.scratch);
  call.poll();
}

void Affine::weight_gradient(const Call& call, kernels::ConstArray x, kernels::ConstArray dy,
                             kernels::Array gradient) const {
  if (gradient.data == nullptr) return;
  TESSERA_ASSERT(gradient.dtype == DType::float32 || dy.dtype == gradient.dtype,
                 "gradients are float32, or LanguageModelOptions::dtype");
  const void* a = out_in_ ? dy.data : x.data;
  const void* b = out_in_ ? x.data : dy.data;
  call.math->product(with(weight_, gradient.dtype, true), a, b, gradient.data, {},
                     call.work.scratch);
  call.poll();
}

}  // namespace tessera::language
