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

// To the module and to all around it.
void add(const Model& model, const ParameterUse& use, std::vector<std::vector<ParameterId>>& out) {
  for (ModuleId m = use.module; m.valid(); m = model.module(m).parent) {
    auto& used = out[m.index()];
    const bool known = std::find(used.rbegin(), used.rend(), use.parameter) != used.rend();
    if (!known) used.push_back(use.parameter);
  }
}

// Adds the parameters that modules reach through the further names of others.
void add_aliased(const Model& model, std::vector<std::vector<ParameterId>>& out) {
  const ModuleGraph graph(model);
  for (std::size_t m = 0; m < out.size(); ++m) {
    std::vector<bool> known(model.parameters.size(), false);
    for (ParameterId p : out[m]) known[p.index()] = true;
    for (ParameterId p : graph.parameters_below(ModuleId{static_cast<std::int32_t>(m)})) {
      if (!known[p.index()]) out[m].push_back(p);
    }
  }
}

}  // namespace

std::vector<std::vector<ParameterId>> registered_with(const Model& model) {
  std::vector<std::vector<ParameterId>> out(model.modules.size());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    for (ModuleId m = model.parameters[p].module; m.valid(); m = model.module(m).parent) {
      out[m.index()].push_back(ParameterId{static_cast<std::int32_t>(p)});
    }
  }
  for (const Tie& tie : model.ties) add(model, {module_of_alias(model, tie), tie.parameter}, out);
  if (!model.module_aliases.empty()) add_aliased(model, out);
  return out;
}

std::vector<std::vector<ParameterId>> used_by(const Model& model) {
  auto out = registered_with(model);
  for (const ParameterUse& read : model.reads) add(model, read, out);
  return out;
}

std::vector<std::vector<ParameterId>> reads_of_containers(const Model& model, bool own) {
  std::vector<std::vector<ParameterId>> out(model.modules.size());
  // Modules that a graph lists compute with all that is theirs; those around them with their own.
  std::vector<bool> listed(model.modules.size(), false);
  std::vector<bool> around(model.modules.size(), false);
  auto list = [&](const std::vector<ModuleId>& forward) {
    for (const ModuleId id : forward) {
      listed[id.index()] = true;
      for (ModuleId m = model.module(id).parent; m.valid(); m = model.module(m).parent) {
        around[m.index()] = true;
      }
    }
  };
  list(model.forward);
  for (const Graph& graph : model.graphs) list(graph.forward);
  auto add_read = [&](ModuleId module, ParameterId parameter) {
    auto& reads = out[module.index()];
    const bool known = std::find(reads.begin(), reads.end(), parameter) != reads.end();
    if (!listed[module.index()] && !known) reads.push_back(parameter);
  };
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    if (!own || !around[m]) continue;
    for (const ParameterId p : model.modules[m].parameters) {
      add_read(ModuleId{static_cast<std::int32_t>(m)}, p);
    }
  }
  for (const Tie& tie : model.ties) {
    const ModuleId owner = module_of_alias(model, tie);
    if (own && around[owner.index()]) add_read(owner, tie.parameter);
  }
  for (const ParameterUse& read : model.reads) add_read(read.module, read.parameter);
  return out;
}

}  // namespace tessera
