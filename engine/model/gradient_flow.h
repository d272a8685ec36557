// SPDX-License-Identifier: Apache-2.0
// Where gradients flow in a model's backward pass.
//
// The idea: autograd decides at run time which tensors need a gradient; here the forward list and
// `requires_grad` say the same beforehand. A module has a backward pass iff its output needs a
// gradient, that is iff something trained lies in it or before it.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

class GradientFlow {
 public:
  explicit GradientFlow(const Model& model) : GradientFlow(model, model.forward) {}
  /// The gradients along `forward`, an order of Model::graphs.
  GradientFlow(const Model& model, const std::vector<ModuleId>& forward);

  /// Whether the k-th entry of the order has a backward pass.
  bool runs_backward(std::size_t k) const { return k >= first_trained_; }
  /// Whether some output of `module` needs a gradient: then its unit is needed in backward.
  bool out_of(ModuleId module) const;
  /// Whether every input of `module`'s first call needs a gradient: then its backward is complete
  /// as soon as that of its own modules is, and not only at the end of the pass.
  bool into(ModuleId module) const;

 private:
  struct Calls {
    std::size_t first = 0;
    std::size_t last = 0;
    bool any = false;
  };
  std::vector<Calls> calls_;  // by ModuleId: places in the order
  std::size_t first_trained_ = 0;
  bool input_requires_grad_ = false;
};

}  // namespace tessera
