// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/parameters/module_needs.h"

#include <algorithm>

#include "engine/model/used_by.h"
#include "engine/schemes/zero3/parameters/leaf_modules.h"

namespace tessera {

bool ModuleNeeds::holds(const std::vector<ParameterId>& list, ParameterId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// In place, so that the ascending order that gathers and records rely on stays.
void ModuleNeeds::add(ModuleId module, ParameterId id) {
  if (contain(module, id)) return;
  auto& needs = now_[index(module)];
  needs.insert(std::lower_bound(needs.begin(), needs.end(), id), id);
}

// An entry of the forward list may be a whole module: nobody calls hooks of what is below it.
void ModuleNeeds::add_from_model(const Model& model, const LeafModules& leaves,
                                 const Lists& used_by, bool planned) {
  auto give = [&](ModuleId m, ParameterId p) { now_[index(leaves.around(m))].push_back(p); };
  for (const Tie& tie : model.ties) give(module_of_alias(model, tie), tie.parameter);
  if (planned) {
    for (const ParameterUse& read : model.reads) give(read.module, read.parameter);
    for (const ParameterUse& use : model.returns) {
      give(model.module(use.module).parent, use.parameter);
    }
  }
  auto take_all = [&](ModuleId m) {
    auto& needs = now_[index(m)];
    needs.insert(needs.end(), used_by[index(m)].begin(), used_by[index(m)].end());
  };
  for (ModuleId m : model.forward) take_all(m);
  for (const Graph& graph : model.graphs) {
    for (ModuleId m : graph.forward) take_all(m);
  }
  for (std::size_t m = 0; m < now_.size(); ++m) {
    const ModuleId id{static_cast<std::int32_t>(m)};
    if (leaves.is_leaf(id)) take_all(id);
  }
}

// What runs inside of a leaf module is fetched with it, so it needs nothing itself.
void ModuleNeeds::find(const Model& model, const LeafModules& leaves, const Lists& used_by,
                       bool planned) {
  now_.clear();
  for (const Module& module : model.modules) now_.push_back(module.parameters);
  add_from_model(model, leaves, used_by, planned);
  for (std::size_t m = 0; m < now_.size(); ++m) {
    auto& needs = now_[m];
    if (leaves.inside(ModuleId{static_cast<std::int32_t>(m)})) needs.clear();
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  }
  own_ = now_;
}

}  // namespace tessera
