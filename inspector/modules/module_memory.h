// SPDX-License-Identifier: Apache-2.0
// What each module holds of a rank's memory, at any moment.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "inspector/modules/module_tree.h"

namespace tessera::inspector {

/// What memory is to a module.
enum class Holding : std::uint8_t { shards, gathered, gradients, optimizer, activations, other };
inline constexpr int holding_count = 6;
Holding holding_of(MemoryClass memory_class);

using HeldBytes = std::array<Bytes, holding_count>;
inline Bytes of(const HeldBytes& bytes, Holding holding) {
  return bytes[static_cast<std::size_t>(holding)];
}

class ModuleMemory {
 public:
  ModuleMemory(const ModuleTree& tree, const storage::MemorySeries& samples,
               std::span<const storage::BufferRow> buffers);

  /// By node, subtrees included.
  std::vector<HeldBytes> at(const ModuleTree& tree, Time time) const;
  /// When parameters of the node itself are gathered, in ascending order.
  struct Stretch {
    Time begin, end;
  };
  std::span<const Stretch> gathered(int node) const {
    return gathered_[static_cast<std::size_t>(node)];
  }

 private:
  struct Change {
    Time time;
    Bytes held;  // from then on
  };
  using Changes = std::array<std::vector<Change>, holding_count>;
  void find_gathered();

  std::vector<Changes> changes_;  // by node, of itself
  std::vector<std::vector<Stretch>> gathered_;
};

}  // namespace tessera::inspector
