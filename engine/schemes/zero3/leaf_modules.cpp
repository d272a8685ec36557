// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/leaf_modules.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

// Parents come before their children in the model, so what is around a module is known by then.
Status LeafModules::find(const std::vector<std::string>& names) {
  const std::size_t modules = model_.modules.size();
  std::vector<bool> named(names.size(), false);
  leaf_.assign(modules, false);
  around_.clear();
  for (std::size_t m = 0; m < modules; ++m) {
    const Module& module = model_.modules[m];
    const bool covered = module.parent.valid() && is_leaf(around(module.parent));
    for (std::size_t k = 0; k < named.size(); ++k) {
      if (names[k] != module.path && names[k] != module.class_name) continue;
      named[k] = true;
      leaf_[m] = !covered;
    }
    const ModuleId self{static_cast<std::int32_t>(m)};
    around_.push_back(covered ? around(module.parent) : self);
  }
  const auto missing = std::find(named.begin(), named.end(), false);
  if (missing == named.end()) return {};
  const auto k = static_cast<std::size_t>(missing - named.begin());
  return Status(Code::invalid_argument,
                fmt::format("leaf module '{}' is neither path nor class of a module of {}",
                            names[k], model_.name));
}

// A parameter that is tied to, or read by, a module outside gets its gradient from there.
std::vector<ParameterId> LeafModules::used_only_in(
    ModuleId leaf, const std::vector<ParameterId>& own,
    const std::vector<std::vector<ParameterId>>& needs_of_all) const {
  auto needed_elsewhere = [&](ParameterId id) {
    for (std::size_t m = 0; m < needs_of_all.size(); ++m) {
      const auto& needs = needs_of_all[m];
      const bool other = m != index(leaf);
      if (other && std::find(needs.begin(), needs.end(), id) != needs.end()) return true;
    }
    return std::any_of(model_.reads.begin(), model_.reads.end(), [&](const ParameterUse& read) {
      return read.parameter == id && around(read.module) != leaf;
    });
  };
  std::vector<ParameterId> only;
  for (ParameterId id : own) {
    if (!needed_elsewhere(id)) only.push_back(id);
  }
  return only;
}

}  // namespace tessera
