// SPDX-License-Identifier: Apache-2.0
// Small models for tests, built by hand so that the tests depend on no file.
#pragma once

#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera::test {

struct Linear {
  std::string path;
  std::int64_t in, out;
};

/// A root with Linear children in registration order; `forward` names their execution order.
inline Model linear_model(const std::string& name, const std::vector<Linear>& layers,
                          const std::vector<std::string>& forward) {
  Model model;
  model.name = name;
  model.modules.push_back({.path = "", .class_name = "Net"});
  for (const Linear& layer : layers) {
    const ModuleId id{static_cast<std::int32_t>(model.modules.size())};
    Module module{.path = layer.path, .class_name = "Linear", .parent = ModuleId{0}};
    for (auto [suffix, shape] :
         {std::pair{".weight", std::vector<std::int64_t>{layer.out, layer.in}},
          std::pair{".bias", std::vector<std::int64_t>{layer.out}}}) {
      module.parameters.push_back(ParameterId{static_cast<std::int32_t>(model.parameters.size())});
      model.parameters.push_back({.name = layer.path + suffix, .shape = shape, .module = id});
    }
    module.cost.activation_bytes = {64, 0, 0};
    model.modules[0].children.push_back(id);
    model.modules.push_back(std::move(module));
  }
  for (const auto& path : forward) model.forward.push_back(model.find_module(path));
  return model;
}

/// The reference model G3: the root owns emb and head, units L1, L2, L3.
inline Model g3() {
  return linear_model("g3",
                      {{"emb", 4, 5}, {"L1", 5, 7}, {"L2", 7, 3}, {"L3", 3, 4}, {"head", 4, 2}},
                      {"emb", "L1", "L2", "L3", "head"});
}

}  // namespace tessera::test
