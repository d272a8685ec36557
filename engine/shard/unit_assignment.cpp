// SPDX-License-Identifier: Apache-2.0
#include "engine/shard/unit_assignment.h"

#include <fmt/format.h>

#include "engine/model/used_by.h"

namespace tessera {
namespace {

std::size_t at(ModuleId id) { return static_cast<std::size_t>(id.value); }
std::size_t at(ParameterId id) { return static_cast<std::size_t>(id.value); }

Result<std::vector<bool>> unit_modules(const Model& model, const std::vector<std::string>& paths) {
  std::vector<bool> is_unit(model.modules.size(), false);
  is_unit[0] = true;
  for (const std::string& path : paths) {
    const ModuleId id = model.find_module(path);
    if (!id.valid()) {
      return Status(Code::invalid_argument,
                    fmt::format("unit '{}' is no module of {}: give a module path such as '{}'",
                                path, model.name, model.modules.back().path));
    }
    if (is_unit[at(id)]) {
      return Status(Code::invalid_argument, path.empty()
                                                ? "the root is always a unit: leave it out"
                                                : fmt::format("unit '{}' is named twice", path));
    }
    is_unit[at(id)] = true;
  }
  if (paths.empty()) {
    for (std::size_t m = 1; m < model.modules.size(); ++m) is_unit[m] = model.modules[m].is_block;
  }
  return is_unit;
}

// Children first, own parameters last, stopping at other units.
void collect(const Model& model, ModuleId id, std::size_t unit, UnitAssignment& out) {
  const Module& module = model.module(id);
  out.unit_of_module[at(id)] = unit;
  for (ModuleId child : module.children) {
    if (out.unit_of_module[at(child)] == out.units.size()) collect(model, child, unit, out);
  }
  for (ParameterId p : module.parameters) {
    out.units[unit].parameters.push_back(p);
    out.unit_of_parameter[at(p)] = unit;
  }
}

Status check_ties(const Model& model, const UnitAssignment& out) {
  for (const Tie& tie : model.ties) {
    const ModuleId owner = module_of_alias(model, tie);
    if (out.unit_of_module[at(owner)] == out.unit_of_parameter[at(tie.parameter)]) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} and {} are one tensor but lie in different units: make a "
                              "common ancestor a unit instead",
                              model.parameter(tie.parameter).name, tie.alias));
  }
  return {};
}

}  // namespace

Result<UnitAssignment> assign_units(const Model& model, const std::vector<std::string>& paths) {
  TESSERA_ASSIGN(const auto is_unit, unit_modules(model, paths));
  UnitAssignment out;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    if (is_unit[m]) out.units.push_back({ModuleId{static_cast<std::int32_t>(m)}, {}});
  }
  out.unit_of_module.assign(model.modules.size(), out.units.size());
  out.unit_of_parameter.assign(model.parameters.size(), 0);
  for (std::size_t u = out.units.size(); u-- > 0;) {  // nested units first: they keep their own
    out.unit_of_module[at(out.units[u].module)] = u;
  }
  for (std::size_t u = 0; u < out.units.size(); ++u) collect(model, out.units[u].module, u, out);

  out.used_by = used_by(model);
  TESSERA_TRY(check_ties(model, out));
  return out;
}

}  // namespace tessera
