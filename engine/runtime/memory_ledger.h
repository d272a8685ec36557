// SPDX-License-Identifier: Apache-2.0
// Who holds the device memory of a rank, by class, and the highest moment of a step.
#pragma once

#include <numeric>

#include "tessera/assert.h"
#include "tessera/checked_runtime.h"

namespace tessera {

class MemoryLedger {
 public:
  using Use = CheckedRuntime::MemoryUse;

  /// Adds `delta` (negative for a release); `allocated` and `reserved` are the allocator's counters
  /// after it.
  void record(MemoryClass memory_class, Bytes delta, Bytes allocated, Bytes reserved) {
    now_.by_class[static_cast<std::size_t>(memory_class)] += delta;
    now_.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] = reserved - allocated;
    now_.allocated = allocated;
    now_.reserved = reserved;
    TESSERA_ASSERT(std::accumulate(now_.by_class.begin(), now_.by_class.end(), Bytes{}) == reserved,
                   "memory classes must sum to the allocator's counter");
    if (now_.allocated > peak_.allocated) peak_ = now_;
  }

  /// The same where all that is reserved is allocated.
  void record(MemoryClass memory_class, Bytes delta) {
    now_.by_class[static_cast<std::size_t>(memory_class)] += delta;
    now_.allocated += delta;
    now_.reserved = now_.allocated;
    if (now_.allocated > peak_.allocated) peak_ = now_;
  }

  const Use& now() const { return now_; }
  /// The moment with the most allocated bytes since `restart_peak`.
  const Use& peak() const { return peak_; }
  void restart_peak() { peak_ = now_; }

 private:
  Use now_;
  Use peak_;
};

}  // namespace tessera
