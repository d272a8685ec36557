// SPDX-License-Identifier: Apache-2.0
#include "engine/model/module_graph.h"

#include <algorithm>

namespace tessera {
namespace {

template <class T>
void add_once(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

ModuleGraph::ModuleGraph(const Model& model) : model_(model) {
  TESSERA_ASSERT(!model.modules.empty(), "a model has a root");
  for (const Module& module : model.modules) {
    children_.push_back(module.children);
    parameters_.push_back(module.parameters);
  }
  for (const ModuleAlias& alias : model.module_aliases) {
    const ModuleId owner = owner_of(model, alias.path);
    TESSERA_ASSERT(owner.valid(), "an alias is registered in a module of the model");
    add_once(children_[owner.index()], alias.module);
  }
  for (const Tie& tie : model.ties) {
    const ModuleId owner = owner_of(model, tie.alias);
    TESSERA_ASSERT(owner.valid(), "a tie's alias names a module of the model");
    add_once(parameters_[owner.index()], tie.parameter);
  }
}

const std::vector<ModuleId>& ModuleGraph::children(ModuleId id) const {
  return children_[id.index()];
}

std::vector<ModuleId> ModuleGraph::modules_below(ModuleId id) const {
  std::vector<bool> met(model_.modules.size(), false);
  std::vector<ModuleId> below;
  std::vector<ModuleId> open = {id};
  while (!open.empty()) {
    const ModuleId next = open.back();
    open.pop_back();
    if (met[next.index()]) continue;
    met[next.index()] = true;
    below.push_back(next);
    open.insert(open.end(), children(next).rbegin(), children(next).rend());
  }
  return below;
}

std::vector<ParameterId> ModuleGraph::parameters_below(ModuleId id) const {
  std::vector<ParameterId> below;
  for (ModuleId m : modules_below(id)) {
    below.insert(below.end(), parameters_[m.index()].begin(), parameters_[m.index()].end());
  }
  std::sort(below.begin(), below.end());
  below.erase(std::unique(below.begin(), below.end()), below.end());
  return below;
}

std::string without_aliases(const Model& model, std::string_view path) {
  std::string name(path);
  // Ends: what is left of the name after the replaced part gets shorter every time.
  for (bool replaced = true; replaced;) {
    replaced = false;
    for (const ModuleAlias& alias : model.module_aliases) {
      const std::size_t size = alias.path.size();
      if (!name.starts_with(alias.path)) continue;
      if (name.size() > size && name[size] != '.') continue;
      name.replace(0, size, model.module(alias.module).path);
      replaced = true;
    }
  }
  return name;
}

ModuleId owner_of(const Model& model, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return model.find_module(dot == std::string_view::npos ? "" : path.substr(0, dot));
}

bool is_list_of_modules(std::string_view class_name) {
  return class_name == "ModuleList" || class_name == "ModuleDict";
}

}  // namespace tessera
