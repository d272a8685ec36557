// SPDX-License-Identifier: Apache-2.0
#include "engine/model/used_by.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

ModuleId module_of_alias(const Model& model, const Tie& tie) {
  const auto dot = tie.alias.rfind('.');
  const ModuleId id = model.find_module(dot == std::string::npos ? "" : tie.alias.substr(0, dot));
  TESSERA_ASSERT(id.valid(), "a tie's alias names a module of the model");
  return id;
}

std::vector<std::vector<ParameterId>> used_by(const Model& model) {
  std::vector<std::vector<ParameterId>> out(model.modules.size());
  auto add = [&](ModuleId m, ParameterId p) {
    for (; m.valid(); m = model.module(m).parent) {
      auto& used = out[static_cast<std::size_t>(m.value)];
      if (std::find(used.rbegin(), used.rend(), p) == used.rend()) used.push_back(p);
    }
  };
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    for (ModuleId m = model.parameters[p].module; m.valid(); m = model.module(m).parent) {
      out[static_cast<std::size_t>(m.value)].push_back(ParameterId{static_cast<std::int32_t>(p)});
    }
  }
  for (const Tie& tie : model.ties) add(module_of_alias(model, tie), tie.parameter);
  return out;
}

}  // namespace tessera
