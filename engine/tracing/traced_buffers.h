// SPDX-License-Identifier: Apache-2.0
// Which row of a trace stands for a buffer.
//
// The idea: steps repeat, so a run has few kinds of buffers: name, unit, class and size. The trace
// has one row for each kind, and memory samples refer to it. Kinds come in the order of the step
// before, so most are found where they are expected.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/values/id_table.h"
#include "tessera/runtime.h"
#include "tessera/trace.h"

namespace tessera {

/// The class of what lies in `memory`: what it is for says no more where it is not on the device.
constexpr MemoryClass class_in(Memory memory, MemoryClass wanted) {
  if (memory == Memory::pinned_host) return MemoryClass::pinned_host;
  return memory == Memory::nvme ? MemoryClass::nvme_staging : wanted;
}

class TracedBuffers {
 public:
  /// Before the first sample of `id`. A new kind's row goes to `sink`.
  void add(BufferId id, const Allocation& request, TraceSink& sink);
  /// REQUIRES: some of the ranks that have it have not released it.
  std::int32_t row_of(BufferId id) const { return live_.at(id).row; }
  void release(BufferId id, const RankSet& ranks);

 private:
  struct Live {
    std::int32_t row = 0;
    Rank ranks = 0;  // that have it
  };

  struct Kind {
    std::string name, unit;
    MemoryClass memory_class = MemoryClass::temporary;
    Bytes bytes{};
    std::int32_t next = -1;  // the kind that came after it the last time

    bool is(const Allocation& request, MemoryClass wanted) const {
      return bytes == request.bytes && memory_class == wanted && name == request.name &&
             unit == request.cause.unit;
    }
  };

  // Of a table by the kinds' hashes.
  struct Place {
    std::size_t hash = 0;
    std::int32_t row = -1;  // none
  };

  std::int32_t row_for(const Allocation& request, MemoryClass memory_class, TraceSink& sink);
  void grow();

  std::vector<Place> places_;  // as many as a power of two, at most half of them taken
  std::vector<Kind> kinds_;    // by row
  std::int32_t last_ = -1;
  IdTable<BufferId, Live> live_;
};

}  // namespace tessera
