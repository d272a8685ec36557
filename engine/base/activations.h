// SPDX-License-Identifier: Apache-2.0
// Modules' activations for their backward, as stacks: a module that runs twice in forward runs its
// backward passes in the reverse order.
#pragma once

#include <vector>

#include "engine/base/issuer.h"
#include "tessera/engine.h"

namespace tessera {

class Activations {
 public:
  /// `issuer` must outlive it.
  explicit Activations(Issuer& issuer);

  /// Runs `what`, a module's work with its parameters and gradients: allocates what it saves or
  /// needs while it runs, and frees what its backward has used.
  Status run(const ModuleWork& work, const Cause& why, Compute what);
  /// Saves and reads again what belongs to no pass of the module itself (a checkpointed block).
  Status keep(const ModuleWork& work, const Cause& why);
  /// Fails: invalid_argument, like `free`, if the module keeps nothing.
  Status restore(const ModuleWork& work, const Cause& why);
  Status free(ModuleId module);

 private:
  std::vector<BufferId>& stack(ModuleId module);
  Status keeps_none(ModuleId module) const;
  Status free_youngest(std::vector<BufferId>& stack, EventId after);

  Issuer& issuer_;
  std::vector<std::vector<BufferId>> saved_;  // by ModuleId
};

}  // namespace tessera
