// SPDX-License-Identifier: Apache-2.0
#include "inspector/modules/module_memory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace tessera::inspector {

Holding holding_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::sharded_parameters: return Holding::shards;
    case MemoryClass::unsharded_parameters:
    case MemoryClass::all_gather_buffers: return Holding::gathered;
    case MemoryClass::sharded_gradients:
    case MemoryClass::unsharded_gradients:
    case MemoryClass::reduce_buffers: return Holding::gradients;
    case MemoryClass::optimizer_state: return Holding::optimizer;
    case MemoryClass::activations:
    case MemoryClass::temporary: return Holding::activations;
    default: return Holding::other;
  }
}

ModuleMemory::ModuleMemory(const ModuleTree& tree, const storage::MemorySeries& samples,
                           std::span<const storage::BufferRow> buffers)
    : changes_(static_cast<std::size_t>(tree.size())) {
  std::unordered_map<std::int32_t, int> nodes;
  for (const storage::BufferRow& buffer : buffers) nodes[buffer.id] = tree.of(buffer);
  for (std::size_t k = 0; k < samples.time.size(); ++k) {
    if (!is_on_device(samples.memory_class[k])) continue;
    const auto node = static_cast<std::size_t>(nodes[samples.buffer[k]]);
    const auto holding = static_cast<std::size_t>(holding_of(samples.memory_class[k]));
    std::vector<Change>& changes = changes_[node][holding];
    const Bytes before = changes.empty() ? Bytes{} : changes.back().held;
    const Bytes held = before + samples.delta[k];
    if (!changes.empty() && changes.back().time == samples.time[k]) {
      changes.back().held = held;
    } else {
      changes.push_back({samples.time[k], held});
    }
  }
  find_gathered();
}

void ModuleMemory::find_gathered() {
  gathered_.resize(changes_.size());
  for (std::size_t node = 0; node < changes_.size(); ++node) {
    bool open = false;
    for (const Change& change : changes_[node][static_cast<std::size_t>(Holding::gathered)]) {
      const bool held = change.held > Bytes{};
      if (held && !open) {
        gathered_[node].push_back({change.time, std::numeric_limits<Time>::max()});
      }
      if (!held && open) gathered_[node].back().end = change.time;
      open = held;
    }
  }
}

std::vector<HeldBytes> ModuleMemory::at(const ModuleTree& tree, Time time) const {
  std::vector<HeldBytes> held(changes_.size());
  for (std::size_t node = changes_.size(); node-- > 0;) {
    for (std::size_t h = 0; h < holding_count; ++h) {
      const std::vector<Change>& changes = changes_[node][h];
      const auto after =
          std::upper_bound(changes.begin(), changes.end(), time,
                           [](Time t, const Change& change) { return t < change.time; });
      if (after != changes.begin()) held[node][h] += std::prev(after)->held;
    }
    // Children come after their parents.
    const int parent = tree.node(static_cast<int>(node)).parent;
    if (parent < 0) continue;
    for (std::size_t h = 0; h < holding_count; ++h) {
      held[static_cast<std::size_t>(parent)][h] += held[node][h];
    }
  }
  return held;
}

}  // namespace tessera::inspector
