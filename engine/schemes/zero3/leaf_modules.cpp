// SPDX-License-Identifier: Apache-2.0
// Modules that are fetched and freed with all below them (deepspeed.utils.set_z3_leaf_modules).
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

// The outermost one counts if they are nested.
Status Zero3Engine::find_leaf_modules() {
  const std::size_t modules = model_.modules.size();
  std::vector<bool> named(options_.leaf_modules.size(), false);
  leaf_.assign(modules, false);
  for (std::size_t m = 0; m < modules; ++m) {
    const Module& module = model_.modules[m];
    const bool covered = module.parent.valid() && leaf_[index(leaf_of_[index(module.parent)])];
    for (std::size_t k = 0; k < named.size(); ++k) {
      const std::string& wanted = options_.leaf_modules[k];
      if (wanted != module.path && wanted != module.class_name) continue;
      named[k] = true;
      leaf_[m] = !covered;
    }
    const ModuleId self{static_cast<std::int32_t>(m)};
    leaf_of_.push_back(covered ? leaf_of_[index(module.parent)] : self);
  }
  const auto missing = std::find(named.begin(), named.end(), false);
  if (missing == named.end()) return {};
  const auto k = static_cast<std::size_t>(missing - named.begin());
  return Status(Code::invalid_argument,
                fmt::format("leaf module '{}' is neither path nor class of a module of {}",
                            options_.leaf_modules[k], model_.name));
}

// After the last of its visits.
Status Zero3Engine::leave_leaf(ModuleId leaf) {
  return --leaf_visits_[index(leaf)] > 0 ? Status{} : fill_missing_gradients(leaf);
}

bool Zero3Engine::used_outside(ModuleId leaf, ParameterId id) const {
  for (std::size_t m = 0; m < needs_.size(); ++m) {
    if (ModuleId{static_cast<std::int32_t>(m)} != leaf &&
        std::count(needs_[m].begin(), needs_[m].end(), id) > 0)
      return true;
  }
  return std::any_of(model_.reads.begin(), model_.reads.end(), [&](const ParameterUse& read) {
    return read.parameter == id && leaf_of_[index(read.module)] != leaf;
  });
}

// Of what did not run this time. What other modules use as well gets its gradient from them.
Status Zero3Engine::fill_missing_gradients(ModuleId leaf) {
  for (ParameterId id : own_needs_[index(leaf)]) {
    OnDemandParameter& p = at(id);
    if (!p.trained || p.reduced || p.gradient.valid()) continue;
    if (used_outside(leaf, id)) continue;
    TESSERA_ASSIGN(const View gradient, gradient_view(id));
    View zeros = gradient;
    zeros.buffer = {};
    TESSERA_TRY(submit(compute_, cause(p.held.unit, Reason::none),
                       Copy{.pieces = {{.from = zeros, .to = gradient}}})
                    .status());
    TESSERA_TRY(grad_ready(id));
  }
  return {};
}

}  // namespace tessera
