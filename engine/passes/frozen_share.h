// SPDX-License-Identifier: Apache-2.0
// How much of a module is frozen, and what its backward pass is spared by that.
//
// The idea: autograd computes the gradient of a weight only if it is trained, and keeps an input
// only for that (torch derivatives.yaml: the formulas of mm, addmm and convolution). Per module the
// model says costs as if all were trained.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

class FrozenShare {
 public:
  /// `used`: used_by(model).
  FrozenShare(const Model& model, const std::vector<std::vector<ParameterId>>& used);

  /// The share of the elements of the module's matrices that is trained; 1 without matrices.
  double trained(ModuleId module) const { return trained_[module.index()]; }
  /// Whether backward needs what the module saves: not if a linear layer or a convolution, whose
  /// input serves the gradient of its weight alone, is frozen.
  bool saves(ModuleId module) const { return saves_[module.index()]; }

 private:
  std::vector<double> trained_;  // by ModuleId
  std::vector<bool> saves_;
};

}  // namespace tessera
