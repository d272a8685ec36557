// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/contention.h"

#include <algorithm>
#include <cmath>

namespace tessera::sim {
namespace {

// Up to so many collectives between the first and the last rank all ranks pass together.
constexpr std::ptrdiff_t near_max = 16;

}  // namespace

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
  const std::size_t ranks = begin->times().size();
  const auto n = static_cast<std::int64_t>(ranks);
  auto out = pool.take();
  out->times() = begin->times();
  left_.assign(ranks, 0);
  clock_add_span(left_.data(), begin->data(), alone->data(), n);
  // Ranks may wait long before they begin: what is over by then slows nobody down.
  const Time first = clock_first_left(out->data(), left_.data(), n);
  auto c = over_by(first);
  // All work is over by then, whatever slows it down.
  const Time longest = alone->highest - begin->lowest;
  const Time at_most = begin->highest + longest * (kept_whole / kept_ + 1);
  Time over = c == under_way_.begin() ? alone->highest : at_most;
  const bool apart = over_by(begin->highest) - c > near_max;
  bool slowed = apart;
  if (apart) slow_down_apart(out->data(), n, at_most);
  for (; !apart && c != under_way_.end() && begins_before(*c, over); ++c) {
    slowed = true;
    if (!clock_slow_down(out->data(), left_.data(), c->end->data(), c->cost, kept_, n)) break;
    over = at_most;
  }
  if (!slowed) return alone;
  clock_add_each(out->data(), left_.data(), n);
  const ClockBounds bounds = clock_bounds(out->data(), n);
  out->lowest = bounds.lowest;
  out->highest = bounds.highest;
  return out;
}

std::deque<Contention::Collective>::const_iterator Contention::over_by(Time now) const {
  return std::partition_point(under_way_.begin(), under_way_.end(),
                              [&](const Collective& c) { return c.end->highest <= now; });
}

// The same rank by rank, each from where it is: ranks that drift apart pass different collectives.
void Contention::slow_down_apart(Time* now, std::int64_t n, Time over) {
  for (std::int64_t r = 0; r < n; ++r) {
    Time& left = left_[static_cast<std::size_t>(r)];
    if (left == 0) continue;
    for (auto c = over_by(now[r]); c != under_way_.end() && begins_before(*c, over); ++c) {
      if (left == 0) break;
      clock_slow_down(now + r, &left, c->end->data() + r, c->cost, kept_, 1);
    }
  }
}

}  // namespace tessera::sim
