// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/unit_assignment.h"

#include <fmt/format.h>

#include "engine/model/module_graph.h"
#include "engine/model/used_by.h"

namespace tessera {
namespace {

Result<std::vector<ModuleId>> named_units(const Model& model,
                                          const std::vector<std::string>& paths) {
  std::vector<bool> is_unit(model.modules.size(), false);
  is_unit[0] = true;
  std::vector<ModuleId> units;
  for (const std::string& path : paths) {
    const ModuleId id = model.find_module(path);
    if (!id.valid()) {
      return Status(Code::invalid_argument,
                    fmt::format("unit '{}' is no module of {}: give a module path such as '{}'",
                                path, model.name, model.modules.back().path));
    }
    if (is_unit[id.index()]) {
      return Status(Code::invalid_argument, path.empty()
                                                ? "the root is always a unit: leave it out"
                                                : fmt::format("unit '{}' is named twice", path));
    }
    is_unit[id.index()] = true;
    units.push_back(id);
  }
  return units;
}

std::vector<ModuleId> blocks(const Model& model) {
  std::vector<ModuleId> units;
  for (std::size_t m = 1; m < model.modules.size(); ++m) {
    if (model.modules[m].is_block) units.push_back(ModuleId{static_cast<std::int32_t>(m)});
  }
  return units;
}

// Collects the parameters of a unit, children first and own parameters last, as FSDP2 does. It
// stops at nested units: their modules have their entry in unit_of_module already, all others still
// have the sentinel units.size().
void collect(const Model& model, const std::vector<bool>& ignored, ModuleId id, std::size_t unit,
             UnitAssignment& out) {
  const Module& module = model.module(id);
  out.unit_of_module[id.index()] = unit;
  for (ModuleId child : module.children) {
    if (out.unit_of_module[child.index()] == out.units.size())
      collect(model, ignored, child, unit, out);
  }
  for (ParameterId p : module.parameters) {
    if (!ignored.empty() && ignored[p.index()]) continue;
    TESSERA_ASSERT(out.unit_of_parameter[p.index()] == UnitAssignment::no_unit,
                   "a parameter lies in one unit");
    out.units[unit].parameters.push_back(p);
    out.unit_of_parameter[p.index()] = unit;
  }
}

std::string unit_name(const Model& model, ModuleId id) {
  return id.value == 0 ? "the root" : fmt::format("'{}'", model.module(id).path);
}

// The lowest unit that contains both modules.
ModuleId common_unit(const Model& model, const UnitAssignment& assigned, ModuleId a, ModuleId b) {
  while (a != b) {  // ids are in pre-order: the larger one cannot contain the other
    TESSERA_ASSERT(a.valid() && b.valid(), "the root contains all modules");
    ModuleId& lower = a.value > b.value ? a : b;
    lower = model.module(lower).parent;
  }
  return assigned.units[assigned.unit_of_module[a.index()]].module;
}

// A tied tensor lies in the buffers of one unit, so all its users must be in that unit: no other
// unit would gather it for them (torch FSDP2 refuses the same).
Status check_ties(const Model& model, const UnitAssignment& assigned) {
  for (const Tie& tie : model.ties) {
    const std::size_t unit = assigned.unit_of_parameter[tie.parameter.index()];
    if (unit == UnitAssignment::no_unit) continue;
    const ModuleId owner = module_of_alias(model, tie);
    const std::size_t other = assigned.unit_of_module[owner.index()];
    if (other == unit) continue;
    const Parameter& parameter = model.parameter(tie.parameter);
    const ModuleId common = common_unit(model, assigned, parameter.module, owner);
    return Status(
        Code::invalid_argument,
        fmt::format("{} and {} are one tensor but lie in different units, {} and {}: "
                    "leave both to {}, or make a common ancestor a unit instead",
                    parameter.name, tie.alias, unit_name(model, assigned.units[unit].module),
                    unit_name(model, assigned.units[other].module), unit_name(model, common)));
  }
  return {};
}

// A parameter that a module only reads must lie in the module's unit too, as no other unit gathers
// it when the module runs.
Status check_reads(const Model& model, const UnitAssignment& assigned) {
  for (const ParameterUse& read : model.reads) {
    const std::size_t unit = assigned.unit_of_parameter[read.parameter.index()];
    const std::size_t reader = assigned.unit_of_module[read.module.index()];
    if (unit == UnitAssignment::no_unit || unit == reader) continue;
    const Parameter& parameter = model.parameter(read.parameter);
    return Status(
        Code::invalid_argument,
        fmt::format("module {} reads {}, but they lie in different units, {} and {}: leave both "
                    "to {}, or use zero3",
                    model.module(read.module).path, parameter.name,
                    unit_name(model, assigned.units[reader].module),
                    unit_name(model, assigned.units[unit].module),
                    unit_name(model, common_unit(model, assigned, parameter.module, read.module))));
  }
  return {};
}

// A module under two names must be a unit itself, or both names must lie in one unit: it is called
// through either, and its parameters have to be gathered both times.
Status check_aliases(const Model& model, const UnitAssignment& assigned) {
  for (const ModuleAlias& alias : model.module_aliases) {
    const std::size_t unit = assigned.unit_of_module[alias.module.index()];
    if (assigned.units[unit].module == alias.module) continue;
    if (assigned.unit_of_module[owner_of(model, alias.path).index()] == unit) continue;
    for (ParameterId p : assigned.used_by[alias.module.index()]) {
      if (assigned.unit_of_parameter[p.index()] != unit) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{} and {} are one module but lie in different units: make it, or "
                                "a common ancestor, a unit instead",
                                model.module(alias.module).path, alias.path));
    }
  }
  return {};
}

}  // namespace

Result<UnitAssignment> assign_units(const Model& model, const std::vector<std::string>& paths) {
  TESSERA_ASSIGN(const auto units, named_units(model, paths));
  return assign_units(model, paths.empty() ? blocks(model) : units, {});
}

Result<UnitAssignment> assign_units(const Model& model, const std::vector<ModuleId>& units,
                                    const std::vector<bool>& ignored) {
  TESSERA_ASSERT(ignored.empty() || ignored.size() == model.parameters.size(),
                 "ignored parameters are by ParameterId");
  std::vector<bool> is_unit(model.modules.size(), false);
  is_unit[0] = true;
  for (ModuleId id : units) is_unit[id.index()] = true;
  UnitAssignment out;
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    if (is_unit[m]) out.units.push_back({ModuleId{static_cast<std::int32_t>(m)}, {}});
  }
  out.unit_of_module.assign(model.modules.size(), out.units.size());
  out.unit_of_parameter.assign(model.parameters.size(), UnitAssignment::no_unit);
  // All units are marked before any of them collects, so that an outer unit, which comes first in
  // pre-order, stops at the inner ones.
  for (std::size_t u = out.units.size(); u-- > 0;) {
    out.unit_of_module[out.units[u].module.index()] = u;
  }
  for (std::size_t u = 0; u < out.units.size(); ++u) {
    collect(model, ignored, out.units[u].module, u, out);
  }

  out.used_by = used_by(model);
  TESSERA_TRY(check_ties(model, out));
  TESSERA_TRY(check_reads(model, out));
  TESSERA_TRY(check_aliases(model, out));
  return out;
}

}  // namespace tessera
