// SPDX-License-Identifier: Apache-2.0
// The model of the recorded DeepSpeed runs: three linear layers under a root.
#pragma once

#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera::test {

struct Net3Options {
  std::vector<std::int64_t> widths = {4, 6, 5, 3};
  bool biases = false;
  bool first_frozen = false;
  bool input_requires_grad = false;
};

inline Model net3(const Net3Options& options = {}) {
  Model model;
  model.name = "net3";
  model.modules.push_back({.path = "", .class_name = "Net"});
  model.input_requires_grad = options.input_requires_grad;
  const std::string names[] = {"a", "b", "c"};
  for (std::size_t k = 0; k < 3; ++k) {
    const ModuleId id{static_cast<std::int32_t>(k + 1)};
    Module module{.path = names[k], .class_name = "Linear", .parent = ModuleId{0}};
    auto add = [&](const char* suffix, std::vector<std::int64_t> shape) {
      module.parameters.push_back(ParameterId{static_cast<std::int32_t>(model.parameters.size())});
      model.parameters.push_back({.name = names[k] + suffix,
                                  .shape = std::move(shape),
                                  .requires_grad = k > 0 || !options.first_frozen,
                                  .module = id});
    };
    add(".w", {options.widths[k + 1], options.widths[k]});
    if (options.biases) add(".b", {options.widths[k + 1]});
    module.cost.activation_bytes = {64, 0, 0};
    model.modules[0].children.push_back(id);
    model.modules.push_back(std::move(module));
    model.forward.push_back(id);
  }
  return model;
}

}  // namespace tessera::test
