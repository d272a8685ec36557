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

  /// The share of the FLOPs of the module's matrices whose weights are trained; 1 without matrices.
  double trained(ModuleId module) const { return trained_[module.index()]; }
  /// The same by ModuleCost::linears; empty: it is not known which.
  const std::vector<bool>& linears(ModuleId module) const { return linears_[module.index()]; }
  /// Whether backward needs what the module saves: not if a linear layer or a convolution, whose
  /// input serves the gradient of its weight alone, is frozen.
  bool saves(ModuleId module) const { return saves_[module.index()]; }
  /// Elements of 16 bit that hold four 4-bit numbers each (tessera/lora.h), of all matrices and of
  /// the largest: every pass makes 16-bit matrices of them first.
  struct Packed {
    double all = 0, largest = 0;
    std::int32_t matrices = 0;
  };
  const Packed& packed(ModuleId module) const { return packed_[module.index()]; }

 private:
  void add(const Model& model, const Module& module, const std::vector<ParameterId>& used);

  std::vector<double> trained_;  // by ModuleId, as the rest
  std::vector<std::vector<bool>> linears_;
  std::vector<bool> saves_;
  std::vector<Packed> packed_;
};

/// Whether that parameter is a frozen matrix of 4-bit numbers: its name ends with "qweight".
bool is_packed(const Parameter& parameter);

}  // namespace tessera
