// SPDX-License-Identifier: Apache-2.0
// What the caching allocators of all ranks take from their devices, beside the places that the
// engine's own allocator gives.
//
// The idea: places prove that a schedule is right, and this counts what a framework would hold for
// the same calls. Ranks that call alike share one account; its times are those of their first.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "engine/runtime/rank_classes.h"
#include "sim/memory/caching_allocator.h"

namespace tessera::sim {

class CachedMemory {
 public:
  /// Another stream uses a buffer until then.
  struct Use {
    StreamId user;
    Time done = 0;
  };
  struct Taken {
    Bytes reserved{};
    bool retried = false;  // the host waited for the device, and gave back what was cached
    bool fits = true;
  };
  /// Who still uses a buffer of a stream on a rank, where that stream does not wait for it.
  using UseOf = std::function<std::optional<Use>(StreamId, Rank)>;

  CachedMemory(const RankSet& world, const CachingOptions& options)
      : ranks_(world, Account{CachingAllocator(options), {}, {}}) {}

  /// A buffer of `stream` for `ranks`, which have called alike so far, at the host time `now`.
  Taken allocate(BufferId id, Bytes bytes, StreamId stream, const RankSet& ranks, Time now);
  void release(BufferId id, const RankSet& ranks, const UseOf& use_of);

  Bytes reserved(Rank rank) const { return ranks_.of(rank).state.allocator.reserved(); }
  /// The most that was reserved on `rank` since restart_peaks.
  Bytes peak(Rank rank) const { return ranks_.of(rank).state.peak; }
  Bytes highest() const { return highest_; }  // on any rank, ever
  void restart_peaks();

 private:
  struct Held {
    CachingAllocator::BlockId block;
    StreamId stream;
  };
  struct Account {
    CachingAllocator allocator;
    std::map<BufferId, Held> held;
    Bytes peak{};
  };

  RankClasses<Account> ranks_;
  Bytes highest_{};
};

}  // namespace tessera::sim
