// SPDX-License-Identifier: Apache-2.0
#include "engine/model/gradient_flow.h"

#include <algorithm>

#include "engine/model/used_by.h"

namespace tessera {
namespace {

// By ModuleId: one of the parameters is trained.
std::vector<bool> any_trained(const Model& model,
                              const std::vector<std::vector<ParameterId>>& by_module) {
  std::vector<bool> trained;
  for (const std::vector<ParameterId>& used : by_module) {
    trained.push_back(std::any_of(used.begin(), used.end(), [&](ParameterId id) {
      return model.parameter(id).requires_grad;
    }));
  }
  return trained;
}

}  // namespace

GradientFlow::GradientFlow(const Model& model, const std::vector<ModuleId>& forward)
    : calls_(model.modules.size()), input_requires_grad_(model.input_requires_grad) {
  const std::vector<bool> trained = any_trained(model, used_by(model));
  // A container reads its parameters before its first entry runs.
  const std::vector<bool> reads_trained = any_trained(model, reads_of_containers(model));
  first_trained_ = forward.size();
  for (std::size_t k = forward.size(); k-- > 0;) {
    if (trained[static_cast<std::size_t>(forward[k].value)]) first_trained_ = k;
    for (ModuleId m = forward[k]; m.valid(); m = model.module(m).parent) {
      if (reads_trained[m.index()]) first_trained_ = k;
      Calls& calls = calls_[m.index()];
      calls.first = k;
      if (!calls.any) calls.last = k;
      calls.any = true;
    }
  }
  if (input_requires_grad_) first_trained_ = 0;
}

bool GradientFlow::out_of(ModuleId module) const {
  const Calls& calls = calls_[module.index()];
  return calls.any && calls.last >= first_trained_;
}

bool GradientFlow::into(ModuleId module) const {
  const Calls& calls = calls_[module.index()];
  return calls.any && (input_requires_grad_ || calls.first > first_trained_);
}

}  // namespace tessera
