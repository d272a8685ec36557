// SPDX-License-Identifier: Apache-2.0
// Rules: enable_wrap, wrap and _wrap of torch/distributed/fsdp/wrap.py.
#include <fmt/format.h>

#include <algorithm>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"
#include "engine/wrap/wrap_plan.h"

namespace tessera {
namespace {

bool contains(const std::vector<ModuleId>& list, ModuleId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

// What wrap() asks of the model, once per unit.
struct WrapContext::Tree {
  explicit Tree(const Model& of) : model(of), graph(of), taken(of.modules.size(), false) {
    for (std::size_t m = 0; m < of.modules.size(); ++m) {
      by_path.emplace(of.modules[m].path, ModuleId{static_cast<std::int32_t>(m)});
    }
  }

  Result<ModuleId> find(std::string_view path) const {
    const auto known = by_path.find(path);
    const ModuleId id = known != by_path.end() ? known->second : model.find_module(path);
    if (id.valid()) return id;
    std::vector<std::string_view> paths;
    for (const Module& m : model.modules) paths.push_back(m.path);
    return Status(Code::invalid_argument, fmt::format("{} is no module of {}{}", in_quotes(path),
                                                      model.name, did_you_mean(path, paths)));
  }

  // What lies in a unit already is not walked again.
  void take(ModuleId unit) {
    std::vector<ModuleId> open = {unit};
    while (!open.empty()) {
      const ModuleId id = open.back();
      open.pop_back();
      if (taken[id.index()]) continue;
      taken[id.index()] = true;
      for (const ModuleId child : graph.children(id)) open.push_back(child);
    }
  }

  const Model& model;
  ModuleGraph graph;
  std::map<std::string_view, ModuleId> by_path;
  std::vector<bool> taken;  // by ModuleId: it is a unit or lies in one
};

WrapContext::WrapContext(const Model& model)
    : model_(model), tree_(std::make_unique<Tree>(model)) {}
WrapContext::~WrapContext() = default;

Result<WrapContext::Scope> WrapContext::enable_wrap(const UnitOverrides& defaults) {
  if (enabled_) {
    return Status(Code::not_supported,
                  "enable_wrap inside a scope of the same context: end that one first");
  }
  enabled_ = true;
  defaults_ = defaults;
  return Scope(this);
}

Status WrapContext::wrap(std::string_view path, const UnitOverrides& overrides) {
  TESSERA_ASSIGN(const ModuleId id, tree_->find(path));
  if (!enabled_) return {};  // as torch's wrap(), which returns the module as it is
  // A unit takes the parameters below it when it is made, so inner modules must come first; the
  // other order would leave an inner unit without parameters.
  if (units_.contains(id)) {
    return Status(Code::invalid_argument, fmt::format("{} is a unit already", in_quotes(path)));
  }
  for (auto unit = units_.begin(); tree_->taken[id.index()] && unit != units_.end(); ++unit) {
    if (!contains(tree_->graph.modules_below(unit->first), id)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} lies in {}, which is a unit already and holds its parameters: "
                              "wrap inner modules first",
                              in_quotes(path), in_quotes(model_.module(unit->first).path)));
  }
  tree_->take(id);
  units_[id] = overridden(overridden(defaults_, overrides),
                          insisted_.contains(id) ? insisted_.at(id) : UnitOverrides{});
  return {};
}

Status WrapContext::override_module(std::string_view path, const UnitOverrides& overrides) {
  TESSERA_ASSIGN(const ModuleId id, tree_->find(path));
  insisted_[id] = overridden(insisted_[id], overrides);
  return {};
}

Result<WrapPlan> WrapContext::plan(const WrapOptions& options) const {
  return plan_of_units(model_, units_, options);
}

}  // namespace tessera
