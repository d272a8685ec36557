// SPDX-License-Identifier: Apache-2.0
#include "training/language/block_input.h"

#include <algorithm>

#include "training/kernels/norm.h"

namespace tessera::language {

BlockInput::Saved BlockInput::take(Arena& kept, Arena& again) const {
  Saved out;
  out.input = (norm_.repeated ? again : kept).take(numel(), shape_.dtype);
  if (!norm_.repeated) return out;
  out.normal = kept.take(numel(), shape_.dtype);
  out.weight = kept.floats(shape_.width);
  if (norm_.centred) out.bias = kept.floats(shape_.width);
  return out;
}

void BlockInput::keep(const Call& call, const Branch& branch, const Saved& saved) const {
  branch.keep_input(call, saved.input);
  if (!norm_.repeated) return;
  call.math->convert(call.work.normal, saved.normal, numel());
  std::copy_n(call.work.norm_weight, shape_.width, saved.weight);
  if (norm_.centred) std::copy_n(call.work.norm_bias, shape_.width, saved.bias);
}

void BlockInput::restore(const Saved& saved) const {
  if (!norm_.repeated) return;
  kernels::norm_again(rows_, saved.normal, saved.weight, saved.bias, saved.input, shape_.threads);
}

void BlockInput::hand_back(const Call& call, const Saved& saved) const {
  if (norm_.repeated) call.math->convert(saved.normal, call.work.normal, numel());
}

}  // namespace tessera::language
