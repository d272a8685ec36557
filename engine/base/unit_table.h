// SPDX-License-Identifier: Apache-2.0
// The sharding units of an engine by index, module and parameter, and the names that causes and
// reports give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/wrap/unit_assignment.h"
#include "tessera/assert.h"
#include "tessera/engine.h"
#include "tessera/wrap.h"

namespace tessera {

class UnitTable {
 public:
  explicit UnitTable(const Model& model) : wrapped_model_(model) {}

  /// Units from a plan, or else from paths. Fails: invalid_argument (both are given, the plan is
  /// another model's, what assign_units refuses).
  Status assign(const std::vector<std::string>& units, const std::optional<WrapPlan>& plan);
  /// One unit with the whole model, whose parameters a scheme lays out itself.
  void assign_whole_model();

  const UnitAssignment& assignment() const { return assignment_; }
  /// The plan's exceptions from the scheme's options for a unit.
  const UnitOverrides& overrides(std::size_t unit) const {
    TESSERA_ASSERT(unit < overrides_.size(), "units were assigned from paths or a plan");
    return overrides_[unit];
  }
  /// Units that are lists of modules: torch never calls their forward.
  std::vector<std::string> units_without_forward() const;
  /// "root", or the path of the unit's module in the Model.
  std::string_view unit_name(std::size_t unit) const;
  std::string_view unit_name_of(ModuleId module) const;
  /// The unit whose module this is, or -1: the module is part of one.
  int unit_at(ModuleId module) const;
  /// The parameters that the work concerns.
  const std::vector<ParameterId>& parameters_of(const ModuleWork& work) const;

 protected:
  UnitAssignment assignment_;

 private:
  const Model& wrapped_model_;
  std::vector<UnitOverrides> overrides_;  // by unit
};

}  // namespace tessera
