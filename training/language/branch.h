// SPDX-License-Identifier: Apache-2.0
// How a module of a block stands to the residual stream: what it reads, and where what it computes
// goes, perhaps after dropout.
#pragma once

#include "training/kernels/dropout.h"
#include "training/language/layers.h"

namespace tessera::language {

class Branch {
 public:
  Branch(const Shape& shape, const DropoutSlots& slots, const BranchSlots& place)
      : shape_(shape), slots_(slots), place_(place) {}

  /// Copies what the module reads into `input`, which the module saves.
  void keep_input(const Call& call, const kernels::Array& input) const {
    if (!place_.reads_stream) return language::keep_input(call, shape_, input);
    call.math->convert({call.work.x, DType::float32}, input, stream());
  }
  /// Where the gradient of that goes, and whether there is one already.
  kernels::Array input_gradient(const Call& call) const {
    return {place_.reads_stream ? call.work.dx : call.work.dy, DType::float32};
  }
  bool adds_to_gradient() const { return place_.reads_stream; }

  /// Elements of the temporary memory of forward, in float32; 0: none.
  std::int64_t numel() const { return drops() ? stream() : 0; }
  /// Whether backward needs memory for the gradient, in the dtype of the products.
  bool converts() const { return drops() || shape_.dtype != DType::float32; }

  /// Where the module adds its output. REQUIRES: `add` follows.
  kernels::Array begin(const Call& call, kernels::Array own) const {
    if (target(call) != call.work.x) {
      call.math->clear({target(call), DType::float32}, stream());
    }
    if (!acts(call)) return {target(call), DType::float32};
    call.math->clear(own, numel());
    return own;
  }
  void add(const Call& call, kernels::Array own) const {
    if (acts(call)) {
      kernels::add_dropped(call.dropout(slots_), positions(), own.as<float>(), target(call),
                           shape_.threads);
    }
    if (place_.to != BranchTarget::stream_and_held) return;
    call.math->accumulate(call.work.held, {call.work.x, DType::float32}, stream());
  }
  /// The gradient of what the module adds, and `bias` plus the sums of its columns. REQUIRES: `own`
  /// if converts().
  kernels::ConstArray gradient(const Call& call, kernels::Array own,
                               const kernels::ColumnGradient& bias) const {
    if (place_.to == BranchTarget::stream_and_held) {
      call.math->convert({call.work.dx, DType::float32}, {call.work.held, DType::float32},
                         stream());
    }
    const kernels::ConstArray dx{source(call), DType::float32};
    if (converts() && !acts(call)) {
      call.math->convert_rows(dx, own, shape_.tokens(), shape_.width, bias);
      return own;
    }
    if (acts(call)) kernels::drop(call.dropout(slots_), positions(), dx, own, shape_.threads);
    const kernels::ConstArray out = acts(call) ? own : dx;
    call.math->add_column_sums(out, shape_.tokens(), shape_.width, bias);
    return out;
  }

 private:
  std::int64_t stream() const { return shape_.tokens() * shape_.width; }
  bool drops() const { return shape_.drops && slots_.share > 0; }
  bool acts(const Call& call) const { return drops() && call.drops; }
  kernels::Positions positions() const { return {shape_.batch, shape_.length, shape_.width}; }
  float* target(const Call& call) const {
    if (place_.to == BranchTarget::norm) return call.work.dy;
    return place_.to == BranchTarget::held ? call.work.held : call.work.x;
  }
  const float* source(const Call& call) const {
    if (place_.to == BranchTarget::norm) return call.work.dy;
    return place_.to == BranchTarget::held ? call.work.held : call.work.dx;
  }

  const Shape& shape_;
  const DropoutSlots slots_;
  const BranchSlots place_;
};

}  // namespace tessera::language
