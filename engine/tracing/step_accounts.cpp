// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/step_accounts.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Up to so many neighbours are gone through for all ranks together: to find those of one rank takes
// as long as to add up some hundred in vectors.
constexpr std::ptrdiff_t near_max = 128;

// Those of `others`, one after the other, that may overlap: from the first to behind the last.
// Bounds of clocks may be wide, and then these are more than overlap on any rank.
template <class Interval, class Intervals>
auto near_of(const Interval& interval, const Intervals& others) {
  const auto end = std::partition_point(others.begin(), others.end(), [&](const Interval& o) {
    return o.begin->lowest < interval.end->highest;
  });
  const auto begin = std::partition_point(others.begin(), end, [&](const Interval& o) {
    return o.end->highest <= interval.begin->lowest;
  });
  return std::pair(begin, end);
}

}  // namespace

StepAccounts::StepAccounts(std::size_t ranks)
    : ranks_(static_cast<std::int64_t>(ranks)),
      pool_(ranks),
      idle_(ranks),
      blocking_(ranks),
      exposed_(ranks),
      wait_(ranks),
      transfer_(ranks),
      step_begin_(ranks) {}

void StepAccounts::add_overlap(const Interval& interval, const Interval& other) {
  clock_add_overlap(exposed_.data(), interval.begin->data(), interval.end->data(),
                    other.begin->data(), other.end->data(), ranks_);
}

void StepAccounts::add_overlaps(const Interval& interval, const Intervals& others) {
  const auto [begin, end] = near_of(interval, others);
  if (end - begin > near_max) return add_overlaps_apart(interval, begin, end);
  for (auto other = begin; other != end; ++other) add_overlap(interval, *other);
}

// The same rank by rank, each with those that it has then: ranks that drift apart are near to
// hundreds of intervals, and each overlaps a few of them.
void StepAccounts::add_overlaps_apart(const Interval& interval, Intervals::const_iterator first,
                                      Intervals::const_iterator last) {
  const Time* const begin = interval.begin->data();
  const Time* const end = interval.end->data();
  for (std::size_t r = 0; r < exposed_.size(); ++r) {
    if (begin[r] >= end[r]) continue;
    const auto is_over = [&](const Interval& other) { return (*other.end)[r] <= begin[r]; };
    for (auto other = std::partition_point(first, last, is_over);
         other != last && (*other->begin)[r] < end[r]; ++other) {
      const Time from = std::max(begin[r], (*other->begin)[r]);
      exposed_[r] += std::max<Time>(0, std::min(end[r], (*other->end)[r]) - from);
    }
  }
}

bool StepAccounts::has_length(const Interval& interval) const {
  const Time* const begin = interval.begin->data();
  const Time* const end = interval.end->data();
  bool any = false;
  for (std::int64_t r = 0; r < ranks_; ++r) any |= begin[r] < end[r];
  return any;
}

void StepAccounts::cut(std::vector<Interval>& pieces, const Interval& other) {
  std::vector<Interval> left;
  const auto keep = [&](const Interval& piece) {
    if (has_length(piece)) left.push_back(piece);
  };
  for (const Interval& piece : pieces) {
    auto before = pool_.take();
    clock_clamp(before->data(), other.begin->data(), piece.begin->data(), piece.end->data(),
                ranks_);
    auto behind = pool_.take();
    clock_clamp(behind->data(), other.end->data(), piece.begin->data(), piece.end->data(), ranks_);
    for (const auto& clock : {before, behind}) {
      const ClockBounds bounds = clock_bounds(clock->data(), ranks_);
      clock->lowest = bounds.lowest;
      clock->highest = bounds.highest;
    }
    keep({piece.begin, before});
    keep({behind, piece.end});
  }
  pieces = std::move(left);
}

void StepAccounts::gap(const Clock& begin, const Clock& end, bool blocking) {
  clock_add_span((blocking ? blocking_ : idle_).data(), begin->data(), end->data(), ranks_);
  const Interval gap{begin, end};
  for (const auto& [id, stream] : streams_) add_overlaps(gap, stream.covered);
  gaps_.push_back(gap);
  // Later gaps begin after this one, later collectives after those of their stream.
  Time horizon = begin->lowest;
  for (const auto& [id, stream] : streams_) horizon = std::min(horizon, stream.horizon);
  forget_before(horizon);
}

void StepAccounts::collective(std::int32_t stream, const Clock& begin, const Clock& end) {
  const Interval whole{begin, end};
  std::vector<Interval> pieces{whole};
  for (const auto& [id, other] : streams_) {
    if (id == stream) continue;
    const auto [first, last] = near_of(whole, other.covered);
    for (auto run = last; run != first;) cut(pieces, *--run);
  }
  Stream& own = streams_[stream];
  own.horizon = begin->lowest;
  for (const Interval& piece : pieces) {
    add_overlaps(piece, gaps_);
    own.covered.push_back(piece);
  }
}

void StepAccounts::forget_before(Time horizon) {
  const auto forget = [horizon](Intervals& intervals) {
    while (!intervals.empty() && intervals.front().end->highest <= horizon) intervals.pop_front();
  };
  forget(gaps_);
  for (auto& [id, stream] : streams_) forget(stream.covered);
}

void StepAccounts::meet_all(const Clock& arrival, Time ready, Time cost) {
  transfer_all_ += cost;
  if (arrival->lowest == ready) return;  // all arrive together
  clock_add_until(wait_.data(), arrival->data(), ready, ranks_);
}

void StepAccounts::meet(Rank rank, Time waited, Time cost) {
  wait_[static_cast<std::size_t>(rank)] += waited;
  transfer_[static_cast<std::size_t>(rank)] += cost;
}

void StepAccounts::close(std::int32_t step, const Clock& end, std::span<const Bytes> peak_allocated,
                         std::span<const Bytes> peak_reserved, TraceSink* sink) {
  Sums compute(step_begin_.size());
  for (std::size_t r = 0; r < compute.size(); ++r) {
    compute[r] = (*end)[r] - step_begin_[r] - idle_[r] - blocking_[r];
    transfer_[r] += transfer_all_;
  }
  if (sink != nullptr) {
    sink->rank_steps({.step = step,
                      .begin = step_begin_,
                      .end = end->times(),
                      .compute = compute,
                      .communication = transfer_,
                      .exposed = exposed_,
                      .blocking = blocking_,
                      .wait = wait_,
                      .peak_allocated = peak_allocated,
                      .peak_reserved = peak_reserved});
  }
  // A stream that is used no more would keep everything: nothing begins before the step that ended.
  forget_before(clock_bounds(step_begin_.data(), ranks_).lowest);
  step_begin_ = end->times();
  transfer_all_ = 0;
  for (auto* sums : {&idle_, &blocking_, &exposed_, &wait_, &transfer_}) {
    std::fill(sums->begin(), sums->end(), 0);
  }
}

}  // namespace tessera
