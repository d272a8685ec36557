// SPDX-License-Identifier: Apache-2.0
// Which module's parameters belong to which sharding unit.
//
// The idea: a unit owns the parameters below its module, except those of units nested in it. The
// order inside a unit is FSDP2's: children first, own parameters last.
#pragma once

#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct UnitAssignment {
  struct Unit {
    ModuleId module;
    std::vector<ParameterId> parameters;
  };
  std::vector<Unit> units;                     // pre-order of their modules; units[0] is the root
  std::vector<std::size_t> unit_of_module;     // by ModuleId: the unit its own parameters are in
  std::vector<std::size_t> unit_of_parameter;  // by ParameterId
  std::vector<std::vector<ParameterId>> used_by;  // by ModuleId, see engine/model/used_by.h
};

/// `paths`: modules that become units besides the root; empty: the model's blocks.
/// Fails: invalid_argument (no such module, twice, a tie across units), naming module or parameter.
Result<UnitAssignment> assign_units(const Model& model, const std::vector<std::string>& paths);

}  // namespace tessera
