// SPDX-License-Identifier: Apache-2.0
// What lies where in a device whose memory is too small for a request.
//
// The idea: allocators differ, but to a reader a device is a row of blocks, held or free, that sums
// to its capacity. What no allocator has taken from it yet is one free block.
//
//   MemoryMap map(80_GiB);
//   map.add({.address = {}, .bytes = 2_MiB, .buffer = 7}, /*usable=*/false);
//   map.add_rest();
#pragma once

#include <vector>

#include "tessera/trace.h"

namespace tessera::sim {

class MemoryMap {
 public:
  /// `page`: what an allocator takes from the device at once; the last one may not be whole.
  explicit MemoryMap(Bytes capacity, Bytes page = Bytes{1})
      : capacity_(capacity), whole_(page * (capacity.value / page.value)) {}

  /// By ascending address; cut at the last whole page. `usable`: if it is free, the request could
  /// have it.
  void add(const MemoryBlock& block, bool usable) { add_until(whole_, block, usable); }
  /// What is left: to the last whole page any request could have it.
  void add_rest();

  const std::vector<MemoryBlock>& blocks() const { return blocks_; }
  Bytes free() const { return free_; }
  /// The longest run of neighbours of one segment that the request could have.
  Bytes largest_free() const { return largest_; }

 private:
  void add_until(Bytes end, MemoryBlock block, bool usable);

  Bytes capacity_, whole_;
  Bytes filled_{}, free_{}, largest_{}, run_{};
  Bytes run_end_{}, run_segment_{};
  std::vector<MemoryBlock> blocks_;
};

}  // namespace tessera::sim
