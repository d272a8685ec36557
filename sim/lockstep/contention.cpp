// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/contention.h"

#include <algorithm>
#include <cmath>

namespace tessera::sim {

Contention::Contention(double share)
    : kept_(std::max<Time>(1, kept_whole - std::llround(share * static_cast<double>(kept_whole)))) {
}

void Contention::add(const Clock& end, Time cost) {
  if (none() || cost == 0) return;
  // By time of their end: streams take turns, so the place is near the back.
  auto later = under_way_.end();
  while (later != under_way_.begin() && std::prev(later)->end->highest > end->highest) --later;
  under_way_.insert(later, {end, cost});
}

Clock Contention::stretched(const Clock& begin, const Clock& alone, ClockPool& pool) {
  while (!under_way_.empty() && under_way_.front().end->highest <= begin->lowest) {
    under_way_.pop_front();
  }
  if (under_way_.empty()) return alone;
  const std::size_t ranks = begin->times.size();
  const auto n = static_cast<std::int64_t>(ranks);
  auto out = pool.take();
  out->times = begin->times;
  left_.assign(ranks, 0);
  clock_add_span(left_.data(), begin->data(), alone->data(), n);
  // All work is over by then, whatever slows it down.
  Time over = alone->highest;
  const Time longest = over - begin->lowest;
  bool slowed = false;
  for (const Collective& c : under_way_) {
    if (c.end->lowest - c.cost >= over) break;
    clock_slow_down(out->data(), left_.data(), c.end->data(), c.cost, kept_, n);
    over = begin->highest + longest * (kept_whole / kept_ + 1);
    slowed = true;
  }
  if (!slowed) return alone;
  clock_add_each(out->data(), left_.data(), n);
  const ClockBounds bounds = clock_bounds(out->data(), n);
  out->lowest = bounds.lowest;
  out->highest = bounds.highest;
  return out;
}

}  // namespace tessera::sim
