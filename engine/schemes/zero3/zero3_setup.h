// SPDX-License-Identifier: Apache-2.0
// Making an engine's parts: from options to streams, groups, partitions and their memory.
#pragma once

#include "engine/base/param_groups.h"
#include "engine/schemes/zero3/zero3_parts.h"
#include "engine/wrap/unit_assignment.h"

namespace tessera {

class Zero3Setup {
 public:
  /// Both must outlive it.
  Zero3Setup(Runtime& runtime, Zero3Parts& parts) : runtime_(runtime), parts_(parts) {}

  // In this order.
  /// Fails: invalid_argument, naming the option that cannot be so.
  Status check_options() const;
  Status create_streams_and_groups();
  /// Every module with parameters of its own is a unit; ties need no common one.
  Result<UnitAssignment> assign_modules();
  /// `unit_of`: the name of a parameter's unit.
  void add_parameters(const std::function<std::string_view(ParameterId)>& unit_of);
  Status allocate(const ParamGroups& groups);

 private:
  const Zero3Options& options() const { return parts_.facts.options; }
  const Model& model() const { return parts_.facts.model; }
  Status check_shard_group() const;
  Status create_node_groups();
  void mark_persistent();
  void find_homes();

  Runtime& runtime_;
  Zero3Parts& parts_;
};

}  // namespace tessera
