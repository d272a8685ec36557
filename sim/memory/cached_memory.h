// SPDX-License-Identifier: Apache-2.0
// What the caching allocators of all ranks take from their devices, beside the places that the
// engine's own allocator gives.
//
// The idea: places prove that a schedule is right, and this counts what a framework would hold for
// the same calls. Ranks that call alike share one account; its times are those of their first. An
// account decides nothing as long as its device has room, so that its calls can wait and are done
// in a row: a thousand accounts, each with its thousands of blocks, do not fit a processor's cache
// together, and one does.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "engine/values/id_table.h"
#include "engine/values/rank_classes.h"
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

  CachedMemory(const RankSet& world, const CachingOptions& options)
      : ranks_(world, Account{CachingAllocator(options), {}, {}, {}, {}}) {}

  /// A buffer of `stream` for `ranks`, which have called alike so far, at the host time `now`.
  /// `tells`: what is reserved then is asked for; otherwise it is told only where it did not fit.
  Taken allocate(BufferId id, Bytes bytes, StreamId stream, const RankSet& ranks, Time now,
                 bool tells = true);
  /// use_of(stream, rank): who still uses a buffer of that stream on that rank, an optional Use,
  /// where the stream does not wait for it. REQUIRES: `ranks` have called alike so far.
  template <class UseOf>
  void release(BufferId id, const RankSet& ranks, UseOf&& use_of) {
    const Held held = given_back(id, ranks);
    const auto give = [&](const RankSet& alike, Account& account) -> Status {
      const std::optional<Use> use = use_of(held.stream, alike.first());
      const StreamId user = use ? use->user : StreamId{};
      put_off(account, {use ? use->done : 0, release_call, static_cast<std::int32_t>(held.place),
                        user.value});
      return {};
    };
    const Status status = ranks_.for_each_in(ranks, give);
    TESSERA_ASSERT(status.ok(), "accounts do not fail");
  }

  /// A piece of what a rank had taken from its device; without a valid buffer it is free.
  struct Piece {
    CachingAllocator::Piece at;
    BufferId buffer;
  };
  /// By address, when the request that `allocate` was just called for did not fit.
  std::vector<Piece> pieces_at_failure(Rank rank) const;

  /// Does what has waited. REQUIRES: before the questions below.
  void settle();
  Bytes reserved(Rank rank) const { return ranks_.of(rank).state.allocator.reserved(); }
  /// The most that was reserved on `rank` since restart_peaks.
  Bytes peak(Rank rank) const { return ranks_.of(rank).state.peak; }
  Bytes highest() const { return highest_; }  // on any rank, ever
  void restart_peaks();

 private:
  // A buffer that some ranks have.
  struct Held {
    std::size_t place = 0;  // in Account::blocks
    StreamId stream;
    Rank ranks = 0;  // how many
  };
  struct Call {
    Time time;            // the host's, or when the user is done
    std::int64_t bytes;   // or release_call
    std::int32_t place;   // in Account::blocks
    std::int32_t stream;  // of the buffer, or its user; -1: nobody else uses it
  };
  static constexpr std::int64_t release_call = -1;
  static constexpr std::size_t waiting_most = 1 << 20;  // calls of all accounts, 24 MB
  struct Account {
    CachingAllocator allocator;
    std::vector<CachingAllocator::BlockId> blocks;  // by Held::place
    Bytes peak{};
    std::vector<Call> waiting;
    Bytes taken_by_them{};  // from the device, at most
  };

  Held& held_by(BufferId id, StreamId stream);
  Held given_back(BufferId id, const RankSet& ranks);
  CachingAllocator::Given carry_out(Account& account, const Call& call);
  void settle(Account& account);
  void put_off(Account& account, const Call& call);

  RankClasses<Account> ranks_;
  IdTable<BufferId, Held> held_;
  std::vector<std::size_t> places_;  // of Account::blocks that are not used
  std::size_t place_count_ = 0;
  Bytes highest_{};
};

}  // namespace tessera::sim
