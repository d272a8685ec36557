// SPDX-License-Identifier: Apache-2.0
// Which parameters a module computes with.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

/// The parameters that each module computes with, by ModuleId, in the order in which its body sees
/// them: its own and those of the modules below it in pre-order, then those that it uses under
/// another name (ties, modules registered twice), then those that it reads.
std::vector<std::vector<ParameterId>> used_by(const Model& model);

/// As used_by, without the parameters that a module only reads (Model::reads).
std::vector<std::vector<ParameterId>> registered_with(const Model& model);

/// The parameters that containers compute with themselves, by ModuleId: those of their own, and
/// those that Model::reads names, of modules that no graph lists but that contain one that is
/// listed. (Modules that a graph lists compute with them in their own work: their entry is empty.)
/// Without `own`, what Model::reads names alone.
std::vector<std::vector<ParameterId>> reads_of_containers(const Model& model, bool own = true);

/// The module that the alias of a tie is registered in.
ModuleId module_of_alias(const Model& model, const Tie& tie);

}  // namespace tessera
