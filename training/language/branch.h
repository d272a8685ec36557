// SPDX-License-Identifier: Apache-2.0
// What a module adds to the residual stream, perhaps after dropout.
#pragma once

#include "training/kernels/dropout.h"
#include "training/language/layer.h"

namespace tessera::language {

class Branch {
 public:
  Branch(const Shape& shape, const DropoutSlots& slots) : shape_(shape), slots_(slots) {}

  /// Elements of the temporary memory of forward, in float32; 0: none.
  std::int64_t numel() const { return drops() ? shape_.tokens() * shape_.width : 0; }
  /// Whether backward needs memory for the gradient, in the dtype of the products.
  bool converts() const { return drops() || shape_.dtype != DType::float32; }

  /// Where the module adds its output. REQUIRES: `add` follows.
  kernels::Array begin(const Call& call, kernels::Array own) const {
    if (!acts(call)) return {call.work.x, DType::float32};
    call.math->clear(own, numel());
    return own;
  }
  void add(const Call& call, kernels::Array own) const {
    if (!acts(call)) return;
    kernels::add_dropped(call.dropout(slots_), positions(), own.as<float>(), call.work.x,
                         shape_.threads);
  }
  /// The gradient of what the module adds. REQUIRES: `own` if converts().
  kernels::ConstArray gradient(const Call& call, kernels::Array own) const {
    const kernels::ConstArray dx{call.work.dx, DType::float32};
    if (acts(call)) {
      kernels::drop(call.dropout(slots_), positions(), dx, own, shape_.threads);
    } else if (converts()) {
      call.math->convert(dx, own, shape_.tokens() * shape_.width);
    } else {
      return dx;
    }
    return own;
  }

 private:
  bool drops() const { return shape_.drops && slots_.share > 0; }
  bool acts(const Call& call) const { return drops() && call.drops; }
  kernels::Positions positions() const { return {shape_.batch, shape_.length, shape_.width}; }

  const Shape& shape_;
  const DropoutSlots slots_;
};

}  // namespace tessera::language
