// SPDX-License-Identifier: Apache-2.0
// The operations of other streams that an operation waited for, as traces show them.
//
// The idea: waits and marks take no time and are no rows of a trace, so one looks through them at
// the operations behind. Every backend that records a trace asks here: then all agree. When
// something happens is said by the youngest operation of each stream: the others were over before.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "tessera/op.h"

namespace tessera {

class WaitedOps {
 public:
  /// Ascending ids, at most one of each stream, shared: most buffers of a module ask for the same.
  using Ids = std::shared_ptr<const std::vector<std::int32_t>>;

  /// At most 16.
  void add_stream() { streams_.emplace_back(); }

  /// Adds the events that `op` itself waits for; call it before its event is recorded.
  void wait(const Op& op);
  /// Everything that is submitted from now on runs after `event`.
  void host_wait(EventId event);
  /// The next event, of `op`. A timed operation (no wait, no mark) ends its stream's waits.
  void record(const Op& op, EventId event);
  /// Events with smaller ids are over for every stream.
  void forget_before(EventId event);

  /// Ids for the next op of `stream`, ascending, without the youngest of its own stream.
  std::vector<std::int32_t> after(StreamId stream) const;
  /// The stream's youngest timed operation, or -1.
  std::int32_t last(StreamId stream) const { return at(stream).last; }
  /// Timed operations such that `event` happens when they are over, or null: it is over for every
  /// stream.
  Ids behind(EventId event);
  /// Those that the next op of `stream` starts after: its own youngest and what it waits for.
  Ids before_next(StreamId stream) const;

 private:
  // By stream; -1: none of it.
  using Youngest = std::array<std::int32_t, 16>;
  static constexpr Youngest none = [] {
    Youngest all{};
    all.fill(-1);
    return all;
  }();

  struct Stream {
    std::int32_t last = -1;
    std::vector<std::int32_t> direct;  // rows of `after`
    std::size_t pruned = 0;            // how many were left of them the last time
    Youngest all = none;               // its own, and those behind the waits waited for
    mutable Ids before;                // of before_next; null: to be found anew
  };
  struct Event {
    std::int32_t direct = -1;
    Youngest all = none;
  };

  Stream& at(StreamId id) { return streams_[id.index()]; }
  const Stream& at(StreamId id) const { return streams_[id.index()]; }
  const Event* find(EventId event) const;
  static void wait_for(Stream& waiting, const Event& event);
  static Ids ids_of(const Youngest& all);
  void prune(Stream& stream) const;

  std::vector<Stream> streams_;
  std::deque<Event> events_;  // events_[k] has id first_ + k
  std::int32_t first_ = 0;
  // The last answer of `behind`: what a module leaves is released after one event.
  EventId behind_event_;
  Ids behind_;
};

}  // namespace tessera
