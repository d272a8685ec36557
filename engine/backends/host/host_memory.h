// SPDX-License-Identifier: Apache-2.0
// Real bytes behind the offsets of an EventOrderedAllocator.
//
// The idea: a range of addresses as large as all memory is reserved once; the system maps pages
// when they are first touched. So the allocator's figure is the memory in use, and no buffer ever
// moves.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

class HostMemory {
 public:
  /// Reserves as many addresses as the machine has memory.
  /// Fails: out_of_memory, if the system refuses to reserve them.
  static Result<HostMemory> reserve();
  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  Bytes reserved() const { return bytes_; }
  /// The bytes at `offset`. REQUIRES: they are inside of the reserved range.
  std::span<std::byte> at(Bytes offset, Bytes bytes) const;

 private:
  std::byte* base_ = nullptr;
  Bytes bytes_{};
};

}  // namespace tessera
