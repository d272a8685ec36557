// SPDX-License-Identifier: Apache-2.0
// The bytes that must be gathered at the same time, whatever a policy does.
#pragma once

#include "engine/schemes/zero3/parameters/gathered_memory.h"
#include "engine/schemes/zero3/parameters/module_needs.h"

namespace tessera {

struct LargestNeed {
  ModuleId module;
  Bytes bytes{};
};

/// The bytes that `module` and those around it need while it runs, gathered one by one.
Bytes needed_at_once(const Model& model, const ModuleNeeds& needs, const GatheredMemory& memory,
                     ModuleId module);

/// The need of the module that needs most.
LargestNeed largest_need(const Model& model, const ModuleNeeds& needs,
                         const GatheredMemory& memory);

}  // namespace tessera
