// SPDX-License-Identifier: Apache-2.0
// Modules' activations for their backward, as stacks: a module that runs twice in forward runs its
// backward passes in the reverse order.
//
// Those that are offloaded are copied to host memory as soon as they are written. Forward waits
// before a block until the copies of the last but one have ended, and backward fetches a block's
// when it begins the one behind it, so that two blocks' worth is on the device.
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
  struct Saved {
    BufferId buffer;  // on the device; none while it waits in host memory
    Bytes bytes{};
    BufferId host;  // none: it stays on the device
    EventId moved;  // the youngest copy between them
  };
  using Stack = std::vector<Saved>;

  Stack& stack(ModuleId module);
  Status keeps_none(ModuleId module) const;
  Status free_youngest(ModuleId module, EventId after);
  ModuleId block_of(ModuleId module) const;
  Status begin_block(ModuleId module, const Cause& why);
  Status leave(const ModuleWork& work, EventId written, Cause why);
  Status fetch(ModuleId module, Saved& saved, const Cause& why);
  Status fetch_blocks(ModuleId module, const Cause& why);
  Status bring(const ModuleWork& work, Cause why);

  Issuer& issuer_;
  std::vector<Stack> saved_;         // by ModuleId
  StreamId copies_;                  // of offloaded ones; none before the first
  std::vector<ModuleId> offloaded_;  // in the order of forward
  ModuleId block_;                   // that forward is in
  EventId last_copy_, copy_before_;  // of that block, and of the one before
};

}  // namespace tessera
