// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/contention.h"

#include <algorithm>
#include <cmath>

namespace tessera::sim {
namespace {

// What every rank's clock and remaining work are after a collective that ends at `end`: at full
// speed until its data moves, then at `kept` / `whole` of it. No branches, so that it vectorises.
void pass(Time* now, Time* left, const Time* end, Time cost, Time kept, Time whole,
          std::size_t ranks) {
  const Time stretch = whole * whole / kept;
  for (std::size_t r = 0; r < ranks; ++r) {
    const Time before = std::clamp(end[r] - cost - now[r], Time{0}, left[r]);
    now[r] += before;
    left[r] -= before;
    const Time beside = std::max(Time{0}, end[r] - now[r]);
    const Time done = std::min(left[r], beside * kept / whole);
    now[r] += std::min(beside, done * stretch / whole);
    left[r] -= done;
  }
}

}  // namespace

Contention::Contention(double share)
    : kept_(std::max<Time>(1, whole - std::llround(share * static_cast<double>(whole)))) {}

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
  auto out = pool.take();
  out->times = begin->times;
  left_.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) left_[r] = (*alone)[r] - (*begin)[r];
  for (const Collective& c : under_way_) {
    pass(out->data(), left_.data(), c.end->data(), c.cost, kept_, whole, ranks);
  }
  Time low = out->times[0] + left_[0];
  Time high = low;
  for (std::size_t r = 0; r < ranks; ++r) {
    out->times[r] += left_[r];
    low = std::min(low, out->times[r]);
    high = std::max(high, out->times[r]);
  }
  out->lowest = low;
  out->highest = high;
  return out;
}

}  // namespace tessera::sim
