// SPDX-License-Identifier: Apache-2.0
// Slows kernels down while data of collectives moves beside them.
//
// The idea: communication takes multiprocessors, memory bandwidth and power, so that a kernel keeps
// only a share of its speed as long as a collective is under way. Collectives are known when the
// kernels that they overlap are submitted: a program issues them first.
#pragma once

#include <deque>
#include <vector>

#include "engine/tracing/clock_kernels.h"
#include "engine/tracing/clock_pool.h"

namespace tessera::sim {

class Contention {
 public:
  /// Kernels lose `share` (0 to below 1) of their speed beside communication.
  explicit Contention(double share);

  bool none() const { return kept_ == kept_whole; }
  /// A collective moves data during the last `cost` ns before `end`.
  void add(const Clock& end, Time cost);
  /// When kernels from `begin` end, that would end at `alone` by themselves. Earlier collectives
  /// are forgotten: kernels are asked for in order.
  Clock stretched(const Clock& begin, const Clock& alone, ClockPool& pool);

 private:
  struct Collective {
    Clock end;
    Time cost;
  };
  static bool begins_before(const Collective& c, Time time) {
    return c.end->lowest - c.cost < time;
  }
  /// The first that is not over on all ranks.
  std::deque<Collective>::const_iterator over_by(Time now) const;
  void slow_down_apart(Time* now, std::int64_t n, Time over);

  std::deque<Collective> under_way_;  // by the latest time of their end
  std::vector<Time> left_;            // work of every rank
  const Time kept_;                   // of kept_whole
};

}  // namespace tessera::sim
