// SPDX-License-Identifier: Apache-2.0
// Who holds the device memory of a rank, by class, and the highest moments of a step.
#pragma once

#include <algorithm>
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
    note_peak();
  }

  /// The same where all that is reserved is allocated.
  void record(MemoryClass memory_class, Bytes delta) {
    now_.by_class[static_cast<std::size_t>(memory_class)] += delta;
    now_.allocated += delta;
    now_.reserved = now_.allocated;
    note_peak();
  }

  const Use& now() const { return now_; }
  /// The moment with the most allocated bytes since `restart_peak`, and the most that was reserved
  /// since then, at whatever moment: what the first does not use of it is unused.
  Use peak() const {
    Use out = peak_;
    out.reserved = highest_;
    out.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] = highest_ - out.allocated;
    return out;
  }
  void restart_peak() {
    peak_ = now_;
    highest_ = now_.reserved;
  }

 private:
  void note_peak() {
    if (now_.allocated > peak_.allocated) peak_ = now_;
    highest_ = std::max(highest_, now_.reserved);
  }

  Use now_;
  Use peak_;
  Bytes highest_{};  // reserved
};

}  // namespace tessera
