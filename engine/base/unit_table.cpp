// SPDX-License-Identifier: Apache-2.0
#include "engine/base/unit_table.h"

#include <fmt/format.h>

#include "engine/model/module_graph.h"
#include "engine/model/used_by.h"
#include "tessera/assert.h"

namespace tessera {

Status UnitTable::assign(const std::vector<std::string>& units,
                         const std::optional<WrapPlan>& plan) {
  if (!plan) {
    TESSERA_ASSIGN(assignment_, assign_units(wrapped_model_, units));
    overrides_.resize(assignment_.units.size());
    return {};
  }
  if (!units.empty()) {
    return Status(Code::invalid_argument, "give units or a wrap plan, not both");
  }
  std::vector<ModuleId> modules;
  for (const WrapUnit& unit : plan->units) {
    if (unit.module.value < 0 || unit.module.value >= std::ssize(wrapped_model_.modules)) {
      return Status(Code::invalid_argument, "the wrap plan was made for another model");
    }
    if (unit.module != ModuleId{0}) modules.push_back(unit.module);
  }
  std::vector<bool> ignored(wrapped_model_.parameters.size(), false);
  for (ParameterId id : plan->ignored) {
    if (!id.valid() || id.index() >= ignored.size()) {
      return Status(Code::invalid_argument,
                    fmt::format("the wrap plan ignores parameter {}, {} has {}: it was made for "
                                "another model",
                                id.value, wrapped_model_.name, ignored.size()));
    }
    if (ignored[id.index()]) {
      return Status(Code::invalid_argument, fmt::format("the wrap plan ignores {} twice",
                                                        wrapped_model_.parameter(id).name));
    }
    ignored[id.index()] = true;
  }
  TESSERA_ASSIGN(assignment_, assign_units(wrapped_model_, modules, ignored));
  for (const auto& unit : assignment_.units) {
    overrides_.emplace_back();
    for (const WrapUnit& planned : plan->units) {
      if (planned.module == unit.module) overrides_.back() = planned.overrides;
    }
  }
  return {};
}

void UnitTable::assign_whole_model() {
  assignment_.units = {{.module = ModuleId{0}, .parameters = {}}};
  assignment_.unit_of_module.assign(wrapped_model_.modules.size(), 0);
  assignment_.unit_of_parameter.assign(wrapped_model_.parameters.size(), 0);
  assignment_.used_by = used_by(wrapped_model_);
}

std::vector<std::string> UnitTable::units_without_forward() const {
  std::vector<std::string> paths;
  for (const auto& unit : assignment_.units) {
    const Module& module = wrapped_model_.module(unit.module);
    if (is_list_of_modules(module.class_name)) paths.push_back(module.path);
  }
  return paths;
}

std::string_view UnitTable::unit_name(std::size_t unit) const {
  TESSERA_ASSERT(unit == 0 || unit < assignment_.units.size(),
                 "what is in no unit is not asked for");
  return unit == 0 ? std::string_view("root")
                   : wrapped_model_.module(assignment_.units[unit].module).path;
}

std::string_view UnitTable::unit_name_of(ModuleId module) const {
  return unit_name(assignment_.unit_of_module[module.index()]);
}

int UnitTable::unit_at(ModuleId module) const {
  TESSERA_ASSERT(module.valid() && module.index() < wrapped_model_.modules.size(),
                 "a module of the model");
  const std::size_t unit = assignment_.unit_of_module[module.index()];
  return assignment_.units[unit].module == module ? static_cast<int>(unit) : -1;
}

const std::vector<ParameterId>& UnitTable::parameters_of(const ModuleWork& work) const {
  static const std::vector<ParameterId> none;
  if (work.no_parameters) return none;
  return work.only.empty() ? assignment_.used_by[work.module.index()] : work.only;
}

}  // namespace tessera
