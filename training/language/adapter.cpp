// SPDX-License-Identifier: Apache-2.0
#include "training/language/adapter.h"

#include <algorithm>

namespace tessera::language {

Result<Adapter> Adapter::prepare(kernels::MathPlan& plan, const Shape& shape,
                                 const AffineShape& base, const AdapterSlots& slots) {
  Adapter out;
  out.slots_ = slots;
  out.rows_ = base.rows;
  if (slots.rank == 0) return out;
  out.matrix_ = slots.rank * std::max(base.in, base.out);
  AffineShape down{.rows = base.rows, .in = base.in, .out = slots.rank, .out_in = true};
  AffineShape up{.rows = base.rows,
                 .in = slots.rank,
                 .out = base.out,
                 .out_in = true,
                 .residual = base.residual,
                 .adds = true};
  TESSERA_ASSIGN(out.down_, Affine::prepare(plan, shape, down));
  TESSERA_ASSIGN(out.up_, Affine::prepare(plan, shape, up));
  return out;
}

void Adapter::forward(const Call& call, kernels::ConstArray x, const Weights& weights,
                      kernels::Array saved, kernels::Array y) const {
  if (!exists()) return;
  down_.forward(call, x, weights.matrix(call, slots_.down), {}, saved);
  call.math->scale(saved, slots_.scale, numel());
  up_.forward(call, saved, weights.matrix(call, slots_.up), {}, y);
}

void Adapter::backward(const Call& call, kernels::ConstArray x, kernels::ConstArray dy,
                       const Weights& weights, kernels::ConstArray saved, kernels::Array temporary,
                       kernels::Array dx) const {
  if (!exists()) return;
  up_.weight_gradient(call, saved, dy, call.gradient(slots_.up));
  up_.input_gradient(call, dy, weights.matrix(call, slots_.up), temporary);
  call.math->scale(temporary, slots_.scale, numel());
  down_.weight_gradient(call, x, temporary, call.gradient(slots_.down));
  down_.input_gradient(call, temporary, weights.matrix(call, slots_.down), dx, true);
}

}  // namespace tessera::language
