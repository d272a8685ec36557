// SPDX-License-Identifier: Apache-2.0
// Rules: enable_wrap, wrap and _wrap of torch/distributed/fsdp/wrap.py.
#include <fmt/format.h>

#include <algorithm>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"
#include "engine/wrap/wrap_plan.h"

namespace tessera {
namespace {

Result<ModuleId> find(const Model& model, std::string_view path) {
  const ModuleId id = model.find_module(path);
  if (id.valid()) return id;
  std::vector<std::string_view> known;
  for (const Module& m : model.modules) known.push_back(m.path);
  return Status(Code::invalid_argument, fmt::format("{} is no module of {}{}", in_quotes(path),
                                                    model.name, did_you_mean(path, known)));
}

bool contains(const std::vector<ModuleId>& list, ModuleId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

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
  TESSERA_ASSIGN(const ModuleId id, find(model_, path));
  if (!enabled_) return {};  // as torch's wrap(), which returns the module as it is
  // A unit takes the parameters below it when it is made, so inner modules must come first; the
  // other order would leave an inner unit without parameters.
  const ModuleGraph graph(model_);
  for (const auto& [unit, settings] : units_) {
    if (unit == id) {
      return Status(Code::invalid_argument, fmt::format("{} is a unit already", in_quotes(path)));
    }
    if (contains(graph.modules_below(unit), id)) {
      return Status(Code::invalid_argument,
                    fmt::format("{} lies in {}, which is a unit already and holds its parameters: "
                                "wrap inner modules first",
                                in_quotes(path), in_quotes(model_.module(unit).path)));
    }
  }
  units_[id] = overridden(overridden(defaults_, overrides),
                          insisted_.contains(id) ? insisted_.at(id) : UnitOverrides{});
  return {};
}

Status WrapContext::override_module(std::string_view path, const UnitOverrides& overrides) {
  TESSERA_ASSIGN(const ModuleId id, find(model_, path));
  insisted_[id] = overridden(insisted_[id], overrides);
  return {};
}

Result<WrapPlan> WrapContext::plan(const WrapOptions& options) const {
  return plan_of_units(model_, units_, options);
}

}  // namespace tessera
