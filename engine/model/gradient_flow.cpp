// SPDX-License-Identifier: Apache-2.0
#include "engine/model/gradient_flow.h"

#include <algorithm>

#include "engine/model/used_by.h"

namespace tessera {
namespace {

// By ModuleId: a parameter of the module or of one below it is trained, under whatever name.
std::vector<bool> trained_modules(const Model& model) {
  std::vector<bool> trained;
  for (const std::vector<ParameterId>& used : used_by(model)) {
    trained.push_back(std::any_of(used.begin(), used.end(), [&](ParameterId id) {
      return model.parameter(id).requires_grad;
    }));
  }
  return trained;
}

}  // namespace

GradientFlow::GradientFlow(const Model& model)
    : calls_(model.modules.size()), input_requires_grad_(model.input_requires_grad) {
  const std::vector<bool> trained = trained_modules(model);
  first_trained_ = model.forward.size();
  for (std::size_t k = model.forward.size(); k-- > 0;) {
    if (trained[static_cast<std::size_t>(model.forward[k].value)]) first_trained_ = k;
    for (ModuleId m = model.forward[k]; m.valid(); m = model.module(m).parent) {
      Calls& calls = calls_[static_cast<std::size_t>(m.value)];
      calls.first = k;
      if (!calls.any) calls.last = k;
      calls.any = true;
    }
  }
  if (input_requires_grad_) first_trained_ = 0;
}

bool GradientFlow::out_of(ModuleId module) const {
  const Calls& calls = calls_[static_cast<std::size_t>(module.value)];
  return calls.any && calls.last >= first_trained_;
}

bool GradientFlow::into(ModuleId module) const {
  const Calls& calls = calls_[static_cast<std::size_t>(module.value)];
  return calls.any && (input_requires_grad_ || calls.first > first_trained_);
}

}  // namespace tessera
