// SPDX-License-Identifier: Apache-2.0
#include "engine/model/used_by.h"

#include <algorithm>

#include "engine/model/module_graph.h"

namespace tessera {

ModuleId module_of_alias(const Model& model, const Tie& tie) {
  const ModuleId id = owner_of(model, tie.alias);
  TESSERA_ASSERT(id.valid(), "a tie's alias names a module of the model");
  return id;
}

namespace {

// What modules reach through the further names of others.
void add_aliased(const Model& model, std::vector<std::vector<ParameterId>>& out) {
  const ModuleGraph graph(model);
  for (std::size_t m = 0; m < out.size(); ++m) {
    std::vector<bool> known(model.parameters.size(), false);
    for (ParameterId p : out[m]) known[static_cast<std::size_t>(p.value)] = true;
    for (ParameterId p : graph.parameters_below(ModuleId{static_cast<std::int32_t>(m)})) {
      if (!known[static_cast<std::size_t>(p.value)]) out[m].push_back(p);
    }
  }
}

}  // namespace

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
  if (!model.module_aliases.empty()) add_aliased(model, out);
  return out;
}

}  // namespace tessera
