// SPDX-License-Identifier: Apache-2.0
// Rules: `_auto_wrap` (torch/distributed/fsdp/_wrap_utils.py), and in wrap.py `_run_policy` and
// `_run_mixed_precision_override_policy`.
#include "engine/wrap/policy_wrap.h"

#include <fmt/format.h>

#include "engine/wrap/policy_decision.h"
#include "engine/wrap/recursive_wrap.h"

namespace tessera {
namespace {

std::vector<ModuleId> visible_modules(const ModuleGraph& graph, const IgnoredStates& ignored) {
  std::vector<ModuleId> modules = graph.modules_below(ModuleId{0});
  std::erase_if(modules, [&](ModuleId id) { return ignored.modules[id.index()]; });
  return modules;
}

// The overrides of `module`'s unit; none if it becomes no unit. Overrides are laid over those of
// the root, so a unit starts from the root's settings. Empty overrides mean no, since torch tests
// the returned dict for truth.
std::optional<UnitOverrides> listed(const WrapPolicy& policy, const Model& model,
                                    const Module& module, const UnitOverrides& root) {
  if (const auto* by_class = std::get_if<ClassWrap>(&policy)) {
    const bool chosen = is_any_of(model, module, by_class->classes);
    return chosen ? std::optional(root) : std::nullopt;
  }
  const WrapChoice choice = std::get<CustomWrap>(policy).choose(module);
  if (const bool* yes = std::get_if<bool>(&choice)) {
    return *yes ? std::optional(root) : std::nullopt;
  }
  const auto& overrides = std::get<UnitOverrides>(choice);
  return overrides.empty() ? std::nullopt : std::optional(overridden(root, overrides));
}

// The classes that lose mixed precision; none if the root has none to lose. Some kernels of batch
// norm do not support low precision, so modules of these classes become units of their own: a unit
// is gathered in one dtype.
std::set<std::string> full_precision_classes(const Model& model,
                                             const std::vector<ModuleId>& modules,
                                             const WrapOptions& options,
                                             std::vector<std::string>& warnings) {
  std::set<std::string> present;
  if (!options.root.mixed_precision.value_or(false)) return present;
  for (ModuleId id : modules) {
    const Module& module = model.module(id);
    if (is_any_of(model, module, options.full_precision_classes)) present.insert(module.class_name);
  }
  if (!present.empty()) {
    warnings.push_back(
        fmt::format("modules of class {} become units of their own, with mixed precision off",
                    fmt::join(present, ", ")));
  }
  return present;
}

}  // namespace

Result<UnitTargets> targets_of(const Model& model, const ModuleGraph& graph,
                               const WrapPolicy& policy, const IgnoredStates& ignored,
                               const WrapOptions& options, std::vector<std::string>& warnings) {
  TESSERA_TRY(check_policy(policy, model));
  TESSERA_ASSERT(ignored.modules.size() == model.modules.size(), "ignored states are by ModuleId");
  const std::vector<ModuleId> modules = visible_modules(graph, ignored);
  const std::set<std::string> full = full_precision_classes(model, modules, options, warnings);
  UnitTargets targets;
  // A listing policy sees every module and a recursive one decides what it visits, so the classes
  // of full precision join them in two ways: as further targets, or as a second policy.
  if (is_listing(policy)) {
    for (ModuleId id : modules) {
      const auto overrides = listed(policy, model, model.module(id), options.root);
      if (overrides) targets.emplace(id, *overrides);
      if (full.contains(model.module(id).class_name)) targets.try_emplace(id, options.root);
    }
  } else {
    WrapPolicy asked = policy;
    // Also descends where `policy` alone would not: any yes is enough, as in torch.
    if (!full.empty()) asked = AnyOfWrap{{policy, TransformerWrap{full}}};
    for (ModuleId id : wrap_recursively(model, graph, asked, ignored, true).modules) {
      targets.emplace(id, options.root);
    }
  }
  for (auto& [id, overrides] : targets) {  // each has a copy: no other unit changes with it
    if (full.contains(model.module(id).class_name)) overrides.mixed_precision = false;
  }
  targets.erase(ModuleId{0});  // the root is a unit anyway, with settings of its own
  if (targets.empty()) {
    warnings.push_back("the policy wraps no module below the root, which is the only unit");
  }
  return targets;
}

}  // namespace tessera
