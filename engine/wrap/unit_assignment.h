// SPDX-License-Identifier: Apache-2.0
// Which module's parameters belong to which sharding unit.
//
// The idea: a unit owns the parameters below its module, except those of units nested in it and
// those that are ignored. The order inside a unit is FSDP2's: children first, own parameters last.
#pragma once

#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct UnitAssignment {
  /// The entry of unit_of_parameter for an ignored parameter.
  static constexpr std::size_t no_unit = static_cast<std::size_t>(-1);

  struct Unit {
    ModuleId module;
    std::vector<ParameterId> parameters;
  };
  std::vector<Unit> units;                     // pre-order of their modules; units[0] is the root
  std::vector<std::size_t> unit_of_module;     // by ModuleId: the unit its own parameters are in
  std::vector<std::size_t> unit_of_parameter;  // by ParameterId; no_unit: ignored
  std::vector<std::vector<ParameterId>> used_by;  // by ModuleId, see engine/model/used_by.h
};

/// Makes units of the root and of the modules at `paths`; of the model's blocks if there are none.
/// Fails: invalid_argument (no such module, a module named twice, a tie or a module under two names
/// whose users lie in different units), naming module or parameter.
Result<UnitAssignment> assign_units(const Model& model, const std::vector<std::string>& paths);

/// Makes units of the root and of exactly the modules in `units`, in any order. `ignored` says by
/// ParameterId which parameters belong to no unit; empty: none. Fails: invalid_argument (a tie or a
/// module under two names whose users lie in different units), naming both names.
Result<UnitAssignment> assign_units(const Model& model, const std::vector<ModuleId>& units,
                                    const std::vector<bool>& ignored);

}  // namespace tessera
