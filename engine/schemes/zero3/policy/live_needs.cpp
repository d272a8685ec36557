// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/live_needs.h"

#include <set>

namespace tessera {

Bytes needed_at_once(const ParameterMover& mover, ModuleId module) {
  std::set<ParameterId> needed;
  for (ModuleId m = module; m.valid(); m = mover.moved_model().module(m).parent) {
    const auto& own = mover.needs()[static_cast<std::size_t>(m.value)];
    needed.insert(own.begin(), own.end());
  }
  Bytes bytes{};
  Bytes most{};  // the last one to come may need more while it comes
  for (ParameterId id : needed) {
    const Bytes stays = mover.gathered_bytes(id);
    bytes += stays;
    most = std::max(most, mover.gather_bytes({&id, 1}) - stays);
  }
  return bytes + most;
}

LargestNeed largest_need(const ParameterMover& mover) {
  LargestNeed largest;
  for (std::size_t m = 0; m < mover.needs().size(); ++m) {
    const ModuleId module{static_cast<std::int32_t>(m)};
    const Bytes bytes = needed_at_once(mover, module);
    if (!largest.module.valid() || bytes > largest.bytes) largest = {module, bytes};
  }
  return largest;
}

}  // namespace tessera
