// SPDX-License-Identifier: Apache-2.0
// Module trees for wrapping tests, and what tests ask of a plan.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/model/tree_builder.h"
#include "tessera/wrap.h"

namespace tessera::test {

/// Linear(5, 5): a weight and a bias, 30 elements.
inline void linear30(TreeBuilder& tree, const std::string& name) { tree.linear(name, 5, 5, true); }

/// Sequential(L, L, Sequential(L, L)), 30 elements each.
inline Model nested_sequential() {
  TreeBuilder tree("nested", "Sequential", DType::float32);
  linear30(tree, "0");
  linear30(tree, "1");
  tree.open("2", "Sequential");
  linear30(tree, "0");
  linear30(tree, "1");
  tree.close();
  return tree.take();
}

inline Parameter& parameter_named(Model& model, const std::string& name) {
  const ParameterId id = model.find_parameter(name);
  REQUIRE(id.valid());
  return model.parameters[id.index()];
}

/// Paths in the order of the ids, "<root>" for the root.
inline std::vector<std::string> paths(const Model& model, const std::vector<ModuleId>& modules) {
  std::vector<std::string> names;
  for (ModuleId id : modules) {
    const std::string& path = model.module(id).path;
    names.push_back(path.empty() ? "<root>" : path);
  }
  return names;
}

/// Paths of the units below the root.
inline std::vector<std::string> units(const Model& model, const WrapPlan& plan) {
  REQUIRE_FALSE(plan.units.empty());
  CHECK(plan.units[0].module == ModuleId{0});
  std::vector<ModuleId> modules;
  for (std::size_t u = 1; u < plan.units.size(); ++u) modules.push_back(plan.units[u].module);
  return paths(model, modules);
}

inline WrapPlan plan_of(const Model& model, const WrapPolicy& policy,
                        const WrapOptions& options = {}) {
  auto plan = plan_wrapping(model, policy, options);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return std::move(plan).value();
}

/// The plan is refused as invalid_argument in one sentence that contains `hint`.
inline void check_refused(const Result<WrapPlan>& plan, const std::string& hint) {
  REQUIRE_FALSE(plan.ok());
  const std::string& message = plan.status().message();
  INFO(message);
  CHECK(plan.status().code() == Code::invalid_argument);
  CHECK(message.find(hint) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

/// Exactly one warning, which contains `hint`.
inline void check_warning(const WrapPlan& plan, const std::string& hint) {
  REQUIRE(plan.warnings.size() == 1);
  INFO(plan.warnings[0]);
  CHECK(plan.warnings[0].find(hint) != std::string::npos);
}

inline const WrapUnit& unit_at(const Model& model, const WrapPlan& plan, const std::string& path) {
  for (const WrapUnit& unit : plan.units) {
    if (model.module(unit.module).path == path) return unit;
  }
  FAIL("no unit " << path);
  return plan.units[0];
}

inline std::vector<std::string> parameter_names(const Model& model, const WrapUnit& unit) {
  std::vector<std::string> names;
  for (ParameterId id : unit.parameters) names.push_back(model.parameter(id).name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace tessera::test
