// SPDX-License-Identifier: Apache-2.0
// The purposes of memory. At every event those on the device sum to its allocator's own counter:
// the runtime asserts it and the inspector shows it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// Values are part of the trace format: append, never renumber.
enum class MemoryClass : std::uint8_t {
  sharded_parameters = 0,
  unsharded_parameters = 1,
  sharded_gradients = 2,
  unsharded_gradients = 3,
  optimizer_state = 4,
  activations = 5,
  temporary = 6,
  all_gather_buffers = 7,
  reduce_buffers = 8,
  inputs = 9,
  buffers = 10,
  communication_library = 11,
  pinned_host = 12,
  nvme_staging = 13,
  reserved_unused = 14,  // reserved from the device but not allocated: fragmentation
  unknown = 15,          // of imported traces: allocated, nobody knows what for
};

inline constexpr int memory_class_count = 16;

/// Whether memory of that class is the device's, and counts in its allocator's counter; all other
/// is the host's or a drive's.
constexpr bool is_on_device(MemoryClass memory_class) {
  return memory_class != MemoryClass::pinned_host && memory_class != MemoryClass::nvme_staging;
}

/// "sharded parameters", ..., in the order of the enumerators.
std::string_view name_of(MemoryClass memory_class);

}  // namespace tessera
