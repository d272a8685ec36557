// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/memory_map.h"

#include <algorithm>

namespace tessera::sim {

void MemoryMap::add_until(Bytes until, MemoryBlock block, bool usable) {
  block.bytes = std::min(block.bytes, until - filled_);
  if (block.bytes <= Bytes{}) return;
  filled_ += block.bytes;
  if (block.buffer < 0) {
    free_ += block.bytes;
    const bool goes_on = block.address == run_end_ && block.segment == run_segment_;
    run_ = usable ? block.bytes + (goes_on ? run_ : Bytes{}) : Bytes{};
    run_end_ = block.address + block.bytes;
    run_segment_ = block.segment;
    largest_ = std::max(largest_, run_);
  } else {
    run_ = {};
  }
  blocks_.push_back(block);
}

void MemoryMap::add_rest() {
  for (const Bytes until : {whole_, capacity_}) {
    const Bytes end = blocks_.empty() ? Bytes{} : blocks_.back().address + blocks_.back().bytes;
    add_until(until, {.address = end, .bytes = until - filled_, .segment = end}, until == whole_);
  }
}

}  // namespace tessera::sim
