// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/step_accounts.h"

#include <algorithm>
#include <limits>

namespace tessera::sim {

StepAccounts::StepAccounts(std::size_t ranks)
    : ranks_(static_cast<std::int64_t>(ranks)),
      idle_(ranks), exposed_(ranks), blocking_(ranks), wait_(ranks), communication_(ranks),
      step_begin_(ranks) {}

StepAccounts::Interval StepAccounts::interval(const Clock& begin, const Clock& end) const {
  return {begin, end, clock_lowest(begin->data(), ranks_), clock_highest(end->data(), ranks_)};
}

void StepAccounts::add_overlaps(const Interval& interval, const std::deque<Interval>& others) {
  for (const Interval& other : others) {
    if (other.highest_end <= interval.lowest_begin || interval.highest_end <= other.lowest_begin) {
      continue;
    }
    clock_add_overlap(exposed_.data(), interval.begin->data(), interval.end->data(),
                      other.begin->data(), other.end->data(), ranks_);
  }
}

void StepAccounts::forget_before(std::deque<Interval>& intervals, Time horizon) {
  std::erase_if(intervals, [&](const Interval& i) { return i.highest_end <= horizon; });
}

void StepAccounts::gap(const Clock& begin, const Clock& end, bool blocking) {
  clock_add_span(idle_.data(), begin->data(), end->data(), ranks_);
  if (blocking) clock_add_span(blocking_.data(), begin->data(), end->data(), ranks_);
  Interval gap = interval(begin, end);
  add_overlaps(gap, collectives_);
  // Later gaps begin after this one: what ended before can meet none of them.
  forget_before(collectives_, gap.lowest_begin);
  gaps_.push_back(std::move(gap));
}

void StepAccounts::collective(std::int32_t stream, const Clock& begin, const Clock& end) {
  Interval run = interval(begin, end);
  add_overlaps(run, gaps_);
  collective_horizon_[stream] = run.lowest_begin;
  Time horizon = std::numeric_limits<Time>::max();
  for (const auto& [id, time] : collective_horizon_) horizon = std::min(horizon, time);
  forget_before(gaps_, horizon);
  collectives_.push_back(std::move(run));
}

void StepAccounts::close(std::int32_t step, const Clock& end, std::span<const Bytes> peak_allocated,
                         std::span<const Bytes> peak_reserved, TraceSink* sink) {
  ClockData compute(end->size());
  for (std::size_t r = 0; r < compute.size(); ++r) {
    compute[r] = (*end)[r] - step_begin_[r] - idle_[r];
  }
  if (sink != nullptr) {
    sink->rank_steps({.step = step,
                      .begin = step_begin_,
                      .end = *end,
                      .compute = compute,
                      .communication = communication_,
                      .exposed = exposed_,
                      .blocking = blocking_,
                      .wait = wait_,
                      .peak_allocated = peak_allocated,
                      .peak_reserved = peak_reserved});
  }
  step_begin_ = *end;
  for (auto* sums : {&idle_, &exposed_, &blocking_, &wait_, &communication_}) {
    std::fill(sums->begin(), sums->end(), 0);
  }
}

}  // namespace tessera::sim
