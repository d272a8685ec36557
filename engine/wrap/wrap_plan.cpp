// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/wrap_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/text/json_reader.h"
#include "engine/wrap/frozen_check.h"
#include "engine/wrap/unit_assignment.h"

namespace tessera {

UnitOverrides overridden(UnitOverrides base, const UnitOverrides& stronger) {
  const auto take = [&](auto member) {
    if (stronger.*member) base.*member = stronger.*member;
  };
  // These two are one decision.
  if (stronger.reshard_group && !stronger.reshard_after_forward) base.reshard_after_forward.reset();
  if (stronger.reshard_after_forward && !stronger.reshard_group) base.reshard_group.reset();
  take(&UnitOverrides::mixed_precision);
  take(&UnitOverrides::reshard_after_forward);
  take(&UnitOverrides::offload_params);
  take(&UnitOverrides::param_dtype);
  take(&UnitOverrides::reduce_dtype);
  take(&UnitOverrides::shard_group);
  take(&UnitOverrides::reshard_group);
  return base;
}

// Wrapping twice would nest units whose parameters the inner plan already manages; torch raises.
Status check_unwrapped(const Model& model, const WrapOptions& options) {
  if (!options.earlier || options.earlier->units.empty()) return {};
  const std::string& path = model.module(options.earlier->units.back().module).path;
  return Status(Code::invalid_argument,
                fmt::format("{} is a unit of an earlier plan: a model is wrapped once, start from "
                            "one without units",
                            path.empty() ? "the root" : in_quotes(path)));
}

Result<WrapPlan> complete_plan(const Model& model, const UnitTargets& targets,
                               const IgnoredStates& ignored, const WrapOptions& options,
                               std::vector<std::string> warnings) {
  std::vector<ModuleId> modules;
  for (const auto& [id, overrides] : targets) modules.push_back(id);
  TESSERA_ASSIGN(const UnitAssignment assigned, assign_units(model, modules, ignored.parameters));
  TESSERA_ASSERT(!assigned.units.empty() && assigned.units[0].module == ModuleId{0},
                 "the root is the first unit");
  WrapPlan plan{.warnings = std::move(warnings)};
  std::map<ModuleId, std::vector<std::string>> aliases;
  for (const ModuleAlias& alias : model.module_aliases) {
    aliases[alias.module].push_back(alias.path);
  }
  for (const UnitAssignment::Unit& unit : assigned.units) {
    const auto target = targets.find(unit.module);
    WrapUnit made{.module = unit.module,
                  .overrides = target == targets.end() ? options.root : target->second,
                  .parameters = unit.parameters};
    std::sort(made.parameters.begin(), made.parameters.end());  // ids are in pre-order
    if (const auto known = aliases.extract(unit.module)) made.aliases = known.mapped();
    plan.units.push_back(std::move(made));
  }
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    if (ignored.parameters[p]) plan.ignored.push_back(ParameterId{static_cast<std::int32_t>(p)});
  }
  TESSERA_TRY(check_frozen(model, options.uniform_requires_grad, plan));
  return plan;
}

Result<WrapPlan> plan_of_units(const Model& model, const UnitTargets& units,
                               const WrapOptions& options) {
  TESSERA_TRY(check_unwrapped(model, options));
  const ModuleGraph graph(model);
  TESSERA_ASSIGN(const IgnoredStates ignored, ignored_states(model, graph, options));
  // Units are named before the ignored states are known, so the contradiction shows only here.
  for (const auto& [unit, settings] : units) {
    if (!ignored.modules[unit.index()]) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} is a unit and lies in an ignored module: ignore it or wrap it",
                              in_quotes(model.module(unit).path)));
  }
  return complete_plan(model, units, ignored, options, ignored.warnings);
}

Result<WrapPlan> plan_wrapping(const Model& model, const WrapPolicy& policy,
                               const WrapOptions& options) {
  TESSERA_TRY(check_unwrapped(model, options));
  const ModuleGraph graph(model);
  TESSERA_ASSIGN(const IgnoredStates ignored, ignored_states(model, graph, options));
  std::vector<std::string> warnings = ignored.warnings;
  TESSERA_ASSIGN(const UnitTargets targets,
                 targets_of(model, graph, policy, ignored, options, warnings));
  return complete_plan(model, targets, ignored, options, std::move(warnings));
}

}  // namespace tessera
