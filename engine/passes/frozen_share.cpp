// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/frozen_share.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 6> linear_classes = {"Linear", "Conv1D", "Conv1d",
                                                            "Conv2d", "Conv3d", "Embedding"};

}  // namespace

FrozenShare::FrozenShare(const Model& model, const std::vector<std::vector<ParameterId>>& used) {
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    Numel all{};
    Numel trained{};
    bool any = false;
    for (const ParameterId id : used[m]) {
      const Parameter& p = model.parameter(id);
      any |= p.requires_grad;
      if (p.shape.size() < 2) continue;
      all += p.numel();
      if (p.requires_grad) trained += p.numel();
    }
    const bool none = all == Numel{0};
    trained_.push_back(none ? 1
                            : static_cast<double>(trained.value) / static_cast<double>(all.value));
    const bool linear = std::find(linear_classes.begin(), linear_classes.end(),
                                  model.modules[m].class_name) != linear_classes.end();
    saves_.push_back(!linear || used[m].empty() || any);
  }
}

}  // namespace tessera
