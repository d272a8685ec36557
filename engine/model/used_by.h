// SPDX-License-Identifier: Apache-2.0
// Which parameters a module computes with.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera {

/// By ModuleId: the parameters of the module and of those below it in pre-order, then those that it
/// uses under another name (ties, modules registered twice) and those that it reads. The order in
/// which a module's body sees them.
std::vector<std::vector<ParameterId>> used_by(const Model& model);

/// The same without what modules only read (Model::reads).
std::vector<std::vector<ParameterId>> registered_with(const Model& model);

/// By ModuleId, of modules that no graph lists: what Model::reads says that they read. Modules that
/// a graph lists read within their own work.
std::vector<std::vector<ParameterId>> reads_of_containers(const Model& model);

/// The module that the alias of a tie is registered in.
ModuleId module_of_alias(const Model& model, const Tie& tie);

}  // namespace tessera
