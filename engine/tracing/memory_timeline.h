// SPDX-License-Identifier: Apache-2.0
// The memory of recorded ranks in the order of their own clocks.
//
// The idea: buffers come and go in the order of the host's calls, but occupy memory in the time of
// their streams: from when the first user's stream reaches them until the event they are released
// after. Changes are sorted by that time before they are sent; `reserved` is the highest address in
// use so far, in pages, so it never falls below what is allocated, and falls only where an
// allocator gives memory back. Both are the device's: what the host and drives hold changes
// neither.
#pragma once

#include <optional>
#include <vector>

#include "tessera/trace.h"

namespace tessera {

class MemoryTimeline {
 public:
  explicit MemoryTimeline(std::vector<Rank> ranks);

  const std::vector<Rank>& ranks() const { return ranks_; }
  /// A buffer of recorded rank number `slot` appears (delta > 0) or goes (delta < 0) at `time`.
  /// `buffer`: its row of the trace. `address_end`: one past its last byte in the device's range.
  void change(std::size_t slot, Time time, std::int32_t buffer, MemoryClass memory_class,
              Bytes delta, Bytes address_end);
  /// From `time` on the device's allocator keeps no more than `reserved`, of `slot`: it has given
  /// back what it had cached. The next change shows it.
  void gave_back(std::size_t slot, Time time, Bytes reserved);
  /// Sends the changes of `slot` before `horizon`. What follows with an earlier time counts as of
  /// then: a stream that has never run has no clock that would say when its first buffers came.
  void flush(std::size_t slot, Time horizon, TraceSink& sink);

 private:
  struct Change {
    Time time;
    std::int32_t buffer = -1;
    MemoryClass memory_class = MemoryClass::reserved_unused;
    Bytes delta{};
    Bytes address_end{};
    std::optional<Bytes> kept{};  // the allocator gave back all else, and nothing happened beside
  };
  struct Lane {
    std::vector<Change> pending;  // in the order of the calls
    Bytes allocated{};
    Bytes reserved{};
    Time sent = 0;  // nothing before it may follow
  };

  std::vector<Rank> ranks_;
  std::vector<Lane> lanes_;
};

}  // namespace tessera
