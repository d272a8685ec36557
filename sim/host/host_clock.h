// SPDX-License-Identifier: Apache-2.0
// When the host program submits an operation.
//
// The idea: a program issues operations one after the other, and each takes it some time. It runs
// ahead of the device until it has to wait for an event, a stream's queue is full, or the device
// runs dry.
#pragma once

#include "engine/tracing/clock_kernels.h"
#include "engine/tracing/clock_pool.h"
#include "sim/host/launch_queue.h"
#include "tessera/op.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::sim {

class HostClock {
 public:
  HostClock(const HostCosts& costs, ClockPool& pool) : costs_(costs), waited_(pool.same(0)) {}

  /// The host issues `op`, as soon as its stream's queue has room.
  void issue(const Op& op, ClockPool& pool);
  /// What it has issued is over at `end`.
  void under_way(const Op& op, const Clock& end);
  /// Before `op` the host waits for all streams.
  bool waits_before(const Op& op) const;
  /// The host waits until every rank's `time`.
  void wait(const Clock& time, ClockPool& pool);
  /// The time on every rank that is later than `clock` somewhere, or null.
  Clock later_than(const Clock& clock, ClockPool& pool) const;
  std::vector<Time> times() const;
  Time time_of(Rank rank) const { return (*waited_)[static_cast<std::size_t>(rank)] + issued_; }

 private:
  Time pause_before(const Op& op) const;
  Time cost_of(const Op& op) const;
  LaunchQueue& queue_of(StreamId stream);

  const HostCosts costs_;
  Clock waited_;                     // where it last waited
  Time issued_ = 0;                  // what it has taken since
  std::vector<LaunchQueue> queues_;  // by stream
};

}  // namespace tessera::sim
