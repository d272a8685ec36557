// SPDX-License-Identifier: Apache-2.0
// Which work is known to run before which, from the recorded waits alone.
//
// The idea: a vector clock over streams. `clock(s)[t]` counts the ops of stream t that are certain
// to be over when the next op of stream s starts (Mattern 1989, "Virtual Time and Global States").
// Timing never enters: what is ordered here is ordered on every machine. An op of other ranks has
// a place in its stream, too, where these ranks do nothing: so all ranks count alike, and ranks
// that have waited alike share one order whoever ran what.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "tessera/types.h"

namespace tessera {

inline constexpr int stream_count_max = 16;
using StreamClock = std::array<std::uint32_t, stream_count_max>;

/// Elementwise maximum, into the first.
inline void join(StreamClock& into, const StreamClock& from) {
  for (std::size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], from[s]);
}
/// Elementwise a >= b. Counts are below 2^31, as events' ids are, so the sign of a difference
/// tells: every allocation asks this often, and so it takes no branches.
inline bool covers(const StreamClock& a, const StreamClock& b) {
  std::uint32_t signs = 0;
  for (std::size_t s = 0; s < a.size(); ++s) signs |= a[s] - b[s];
  return signs >> 31 == 0;
}

/// The op number `count` (from 1) of a stream; stream -1 stands for "before everything".
struct Position {
  std::int32_t stream = -1;
  std::uint32_t count = 0;
};

class StreamOrder {
 public:
  /// More than a step has, so that what a step waits for is known.
  static constexpr std::int32_t events_kept = 1 << 16;

  void add_stream() {
    ++streams_;
    reached_is_old_ = true;
  }

  /// The next op of `waiting` runs after `event`.
  void wait(StreamId waiting, EventId event);
  /// The next op of `waiting` runs after everything submitted to `other`.
  void wait_stream(StreamId waiting, StreamId other);
  /// Everything submitted from now on runs after `event`.
  void host_wait(EventId event);

  /// Appends an op to `stream`; `event` (the next id) happens when it is done.
  Position advance(StreamId stream, EventId event);
  /// `event` (the next id) belongs to an op of `stream` that other ranks run.
  void skip(StreamId stream, EventId event);

  bool recorded(EventId event) const { return event.value < next_event(); }
  /// `position` is over before the next op of `stream` starts.
  bool before_stream(Position position, StreamId stream) const;
  /// `position` is over when `event` happens.
  bool before_event(Position position, EventId event) const;
  Position position_of(EventId event) const;

  const StreamClock& clock(StreamId stream) const { return clocks_[stream.index()]; }
  /// How often something was waited for: while it stays, streams learn of nobody but themselves.
  std::uint32_t waits() const { return waits_; }
  /// Every stream is known to run after this.
  const StreamClock& reached_by_all() const;
  /// All events with smaller ids are over for every stream, and waiting for them changes nothing,
  /// or they are so old that nobody knows any more what is over when they happen (`uncertain`).
  EventId first_live() const { return EventId{first_live_}; }
  bool uncertain(EventId event) const {
    return event.value < first_live_ && event.value <= last_uncertain_;
  }
  /// What `first_live` is after `prune`; none: some events are, or would be, uncertain.
  EventId over_before() const;
  /// Forgets events that are over for every stream, and those that are too old.
  void prune();

 private:
  struct Event {
    Position position;
    StreamClock clock{};  // what is over when it happens
  };

  std::int32_t next_event() const {
    return first_live_ + static_cast<std::int32_t>(events_.size());
  }
  const Event* find(EventId event) const;
  void learned();

  int streams_ = 0;
  std::array<StreamClock, stream_count_max> clocks_{};
  std::uint32_t waits_ = 0;
  mutable StreamClock reached_{};  // by all, if it is not old
  mutable bool reached_is_old_ = true;
  std::deque<Event> events_;  // events_[k] has id first_live_ + k
  std::int32_t first_live_ = 0;
  std::int32_t last_uncertain_ = -1;
};

}  // namespace tessera
