// SPDX-License-Identifier: Apache-2.0
#include "engine/shard/unit_assignment.h"

#include <fmt/format.h>

#include <algorithm>

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

// The module that a tie's alias is registered in.
ModuleId owner_of(const Model& model, const std::string& alias) {
  const auto dot = alias.rfind('.');
  return model.find_module(dot == std::string::npos ? "" : alias.substr(0, dot));
}

Status check_ties(const Model& model, const UnitAssignment& out) {
  for (const Tie& tie : model.ties) {
    const ModuleId owner = owner_of(model, tie.alias);
    TESSERA_ASSERT(owner.valid(), "a tie's alias names a module of the model");
    if (out.unit_of_module[at(owner)] != out.unit_of_parameter[at(tie.parameter)]) {
      return Status(Code::invalid_argument,
                    fmt::format("{} and {} are one tensor but lie in different units: make a "
                                "common ancestor a unit instead",
                                model.parameter(tie.parameter).name, tie.alias));
    }
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

  out.used_by = parameters_used(model);
  TESSERA_TRY(check_ties(model, out));
  return out;
}

std::vector<std::vector<ParameterId>> parameters_used(const Model& model) {
  std::vector<std::vector<ParameterId>> used_by(model.modules.size());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    for (ModuleId m = model.parameters[p].module; m.valid(); m = model.module(m).parent) {
      used_by[at(m)].push_back(ParameterId{static_cast<std::int32_t>(p)});
    }
  }
  for (const Tie& tie : model.ties) {
    for (ModuleId m = owner_of(model, tie.alias); m.valid(); m = model.module(m).parent) {
      auto& used = used_by[at(m)];
      if (std::find(used.begin(), used.end(), tie.parameter) == used.end()) {
        used.push_back(tie.parameter);
      }
    }
  }
  return used_by;
}

}  // namespace tessera
