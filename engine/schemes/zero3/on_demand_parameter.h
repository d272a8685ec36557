// SPDX-License-Identifier: Apache-2.0
// One parameter of zero3, and a gather of several.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "engine/base/engine_base.h"

namespace tessera {

/// One all_gather of several parameters, until all of them were waited for.
struct Gather {
  std::int32_t number = 0;
  std::vector<ParameterId> parameters;  // ascending
  CommunicatorId group;                 // whose members hold the parts
  Index parts = 1;
  bool secondary = false;       // from the copies that are kept inside of nodes
  Numel partition{};            // of all, per part
  BufferId flat;                // none: the parameters' own buffers
  View codes, scales, decoded;  // what arrives is quantised, and goes to `decoded`
  EventId gathered;
  EventId done;  // and split, if it was coalesced
  bool complete = false;
};

/// Invalid ids mean "does not exist now".
struct OnDemandParameter {
  enum class State : std::uint8_t { not_available, in_flight, available };
  ParameterId id;
  Held held;  // the float32 partition
  Numel numel{};
  Numel partition{};
  bool trained = true;
  bool persistent = false;
  State state = State::not_available;
  std::multiset<ModuleId> active;  // modules that need it now
  bool dangling = false;           // a module returned it to the one around it
  std::shared_ptr<Gather> flying;  // until somebody waited for this parameter
  Memory home = Memory::device;    // of the partition that is gathered
  BufferId cast;                   // that partition, if it is not the float32 one itself
  BufferId secondary;              // ZeRO++: the part of its group
  bool has_secondary = false;      // of values that are still current
  BufferId full;                   // padded; from the gather on, or from its end
  EventId last_use;                // of it; none: the youngest work on the compute stream
  BufferId gradient;               // of this backward pass
  View bucketed;                   // where the gradient is while it waits for its reduction
  bool reduced = false;            // in this backward pass, or waits for it
  Numel place{};                   // in the buffer of gradient partitions in held.memory
  bool has_gradient = false;       // there
};

}  // namespace tessera
