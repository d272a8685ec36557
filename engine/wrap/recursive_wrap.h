// SPDX-License-Identifier: Apache-2.0
// The recursive engine: torch `_recursive_wrap` (torch/distributed/fsdp/wrap.py).
#pragma once

#include <vector>

#include "engine/wrap/ignored_states.h"
#include "tessera/wrap.h"

namespace tessera {

struct RecursiveWrap {
  std::vector<ModuleId> modules;  // wrapped, pre-order
  Numel numel{};                  // elements that they hold
};

/// Asks `policy` from the root down. With `only_children` the root itself is not wrapped.
/// REQUIRES: check_policy accepted `policy`, and it is not CustomWrap.
RecursiveWrap wrap_recursively(const Model& model, const ModuleGraph& graph,
                               const WrapPolicy& policy, const IgnoredStates& ignored,
                               bool only_children);

}  // namespace tessera
