// SPDX-License-Identifier: Apache-2.0
// The memory of recorded ranks in the order of their own clocks.
//
// The idea: buffers come and go in the order of the host's calls, but occupy memory in the time of
// their streams: from when the first user's stream reaches them until the event they are released
// after. Changes are sent in the order of that time; `reserved` is the highest address in use so
// far, in pages, so it never falls below what is allocated, and falls only where an allocator gives
// memory back. Both are the device's: what the host and drives hold changes neither.
//
// What changes is kept once for all ranks, and of each rank only when. A stream's own changes come
// in order, so those of a rank are a few rows that ascend, and need no sorting but a merge.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "tessera/rank_set.h"
#include "tessera/trace.h"

namespace tessera {

class MemoryTimeline {
 public:
  explicit MemoryTimeline(std::vector<Rank> ranks);

  const std::vector<Rank>& ranks() const { return ranks_; }
  /// f(slot) for the recorded ranks in `where`, ascending.
  template <class F>
  void for_each_slot_in(const RankSet& where, F&& f) const {
    auto next = ranks_.begin();
    for (const RankRange& range : where.ranges()) {
      next = std::lower_bound(next, ranks_.end(), range.begin);
      if (next == ranks_.end()) return;
      for (; next != ranks_.end() && *next < range.end; ++next) {
        f(static_cast<std::size_t>(next - ranks_.begin()));
      }
    }
  }
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
    std::int32_t buffer = -1;
    MemoryClass memory_class = MemoryClass::reserved_unused;
    Bytes delta{};
    Bytes address_end{};
    std::optional<Bytes> kept{};  // the allocator gave back all else, and nothing happened beside

    bool operator==(const Change&) const = default;
  };
  /// When a change happens on a rank. At one moment what goes makes room for what comes.
  struct Moment {
    Time time = 0;
    std::int64_t comes_and_change = 0;  // the number of the change, and come_bit

    std::int64_t change() const { return comes_and_change & ~come_bit; }
    auto operator<=>(const Moment&) const = default;
  };
  static constexpr std::int64_t come_bit = std::int64_t{1} << 62;
  /// Moments that ascend.
  struct Row {
    std::vector<Moment> moments;
    std::size_t sent = 0;

    bool over() const { return sent == moments.size(); }
    const Moment& front() const { return moments[sent]; }
  };
  struct Lane {
    std::vector<Row> rows;  // by their last moments, the latest first; none is over
    Bytes allocated{};
    Bytes reserved{};
    Time sent = 0;  // nothing before it may follow
  };

  void add(std::size_t slot, Time time, const Change& change);
  void send(const Moment& moment, std::size_t slot, TraceSink& sink);
  void send_samples(TraceSink& sink);
  void forget_changes();

  std::vector<Rank> ranks_;
  std::vector<Lane> lanes_;
  std::deque<Change> changes_;  // changes_[k] has number first_change_ + k
  std::int64_t first_change_ = 0;
  std::size_t forget_at_ = 0;          // so many changes
  std::vector<MemorySample> samples_;  // on their way to the sink
};

}  // namespace tessera
