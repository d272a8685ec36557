// SPDX-License-Identifier: Apache-2.0
#include "training/language/head_norm.h"

namespace tessera::language {

HeadNorm::HeadNorm(const Shape& shape, const HeadNormSlots& slots, std::int64_t heads,
                   std::int64_t head_dim)
    : shape_(shape),
      slots_(slots),
      norm_{shape.tokens() * (slots.wide ? 1 : heads), head_dim * (slots.wide ? heads : 1), false,
            slots.epsilon} {}

HeadNorm::Saved HeadNorm::take_saved(Arena& arena) const {
  if (!exists()) return {};
  Saved out;
  out.normal = arena.take(numel(), shape_.dtype);
  out.reciprocal = arena.floats(norm_.rows);
  return out;
}

HeadNorm::Temporary HeadNorm::take_temporary(Arena& arena, bool backward) const {
  if (!exists()) return {};
  Temporary out;
  if (converts()) out.values = arena.floats(numel());
  if (backward) out.gradient = arena.floats(numel());
  if (backward) out.sums = arena.floats(2 * norm_.width);
  if (slots_.about_one) out.scale = arena.floats(norm_.width);
  return out;
}

void HeadNorm::forward(const Call& call, const Weights& weights, kernels::Array heads,
                       const Saved& saved, const Temporary& own) const {
  if (!exists()) return;
  const float* values = heads.as<float>();
  if (converts()) {
    call.math->convert(heads, {own.values, DType::float32}, numel());
    values = own.values;
  }
  call.math->norm_forward(norm_, values, weights.about_one(call, slots_.weight, own.scale), {},
                          heads, saved.normal, saved.reciprocal);
}

void HeadNorm::backward(const Call& call, const Weights& weights, kernels::Array gradient,
                        const Saved& saved, const Temporary& own) const {
  if (!exists()) return;
  const float* dy = gradient.as<float>();
  if (converts()) {
    call.math->convert(gradient, {own.values, DType::float32}, numel());
    dy = own.values;
  }
  const kernels::Array dx{own.gradient, DType::float32};
  call.math->clear(dx, numel());
  call.math->norm_backward(norm_, dy, weights.about_one(call, slots_.weight, own.scale),
                           saved.normal, saved.reciprocal, own.gradient,
                           {call.gradient(slots_.weight), {}, own.sums, call.work.scratch});
  call.math->convert(dx, gradient, numel());
}

}  // namespace tessera::language
