// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/live_needs.h"

#include <set>

namespace tessera {

Bytes needed_at_once(const Model& model, const ModuleNeeds& needs, const GatheredMemory& memory,
                     ModuleId module) {
  std::set<ParameterId> needed;
  for (ModuleId m = module; m.valid(); m = model.module(m).parent) {
    const auto& own = needs.of(m);
    needed.insert(own.begin(), own.end());
  }
  Bytes bytes{};
  Bytes most{};  // the last one to come may need more while it comes
  for (ParameterId id : needed) {
    const Bytes stays = memory.of(id);
    bytes += stays;
    most = std::max(most, memory.most_of({&id, 1}) - stays);
  }
  return bytes + most;
}

LargestNeed largest_need(const Model& model, const ModuleNeeds& needs,
                         const GatheredMemory& memory) {
  LargestNeed largest;
  for (std::size_t m = 0; m < needs.all().size(); ++m) {
    const ModuleId module{static_cast<std::int32_t>(m)};
    // Without needs of its own it needs what the module around it needs, which came before.
    if (m > 0 && needs.of(module).empty()) continue;
    const Bytes bytes = needed_at_once(model, needs, memory, module);
    if (!largest.module.valid() || bytes > largest.bytes) largest = {module, bytes};
  }
  return largest;
}

}  // namespace tessera
