// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/parameters/leaf_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace tessera {

namespace {

// Elements below a module, and how many modules there have any.
struct Content {
  Numel numel{};
  std::int64_t modules = 0;
};

constexpr Numel leaf_most{1'000'000'000};  // larger ones would be gathered as a whole
constexpr Numel never_fine{std::numeric_limits<std::int64_t>::max()};
constexpr std::array<std::string_view, 6> containers = {
    "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container"};

// Elements per module in each: deepspeed parameter_offload.py: _get_granularity_recursively.
// Modules without modules below, and those whose forward may never run, are never fine-grained.
// Children come behind their parents.
std::vector<Numel> grains(const Model& model) {
  const std::size_t modules = model.modules.size();
  std::vector<Numel> grain(modules, never_fine);
  std::vector<Content> below(modules);
  for (std::size_t m = modules; m-- > 0;) {
    const Module& module = model.modules[m];
    Content all = below[m];
    const bool bottom = all.modules == 0;
    for (const ParameterId id : module.parameters) all.numel += model.parameter(id).numel();
    const bool container =
        std::find(containers.begin(), containers.end(), module.class_name) != containers.end();
    if (all.numel > Numel{0} && (bottom || !container)) ++all.modules;
    if (!bottom && !container && all.numel <= leaf_most) {
      grain[m] = Numel{all.numel.value / all.modules};
    }
    if (!module.parent.valid()) continue;
    Content& parent = below[module.parent.index()];
    parent.numel += all.numel;
    parent.modules += all.modules;
  }
  return grain;
}

bool is_named(const Module& module, std::string_view name) {
  if (name.starts_with("*")) return module.path.ends_with(name.substr(1));
  return name == module.path || name == module.class_name;
}

}  // namespace

// Parents come before their children in the model, so what is around a module is known by then.
Status LeafModules::find(const std::vector<std::string>& names, Numel granularity) {
  const std::vector<Numel> grain = granularity > Numel{0} ? grains(model_) : std::vector<Numel>{};
  finest_ = grain.empty() ? Numel{} : *std::min_element(grain.begin(), grain.end());
  const std::size_t modules = model_.modules.size();
  std::vector<bool> named(names.size(), false), acts(names.size(), false);
  leaf_.assign(modules, false);
  around_.clear();
  for (std::size_t m = 0; m < modules; ++m) {
    const Module& module = model_.modules[m];
    const bool covered = module.parent.valid() && is_leaf(around(module.parent));
    for (std::size_t k = 0; k < named.size(); ++k) {
      if (!is_named(module, names[k])) continue;
      named[k] = true;
      if (!covered && !module.children.empty()) acts[k] = true;
      leaf_[m] = !covered;
    }
    if (!grain.empty() && grain[m] <= granularity) leaf_[m] = !covered;
    const ModuleId self{static_cast<std::int32_t>(m)};
    around_.push_back(covered ? around(module.parent) : self);
  }
  idle_.clear();
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (!acts[k]) idle_.push_back(names[k]);
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
