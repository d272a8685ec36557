// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/step_accounts.h"

#include <algorithm>
#include <limits>

namespace tessera {

StepAccounts::StepAccounts(std::size_t ranks)
    : ranks_(static_cast<std::int64_t>(ranks)),
      idle_(ranks),
      blocking_(ranks),
      exposed_(ranks),
      wait_(ranks),
      transfer_(ranks),
      step_begin_(ranks) {}

void StepAccounts::add_overlap(const Interval& interval, const Interval& other) {
  if (other.end->highest <= interval.begin->lowest ||
      interval.end->highest <= other.begin->lowest) {
    return;
  }
  clock_add_overlap(exposed_.data(), interval.begin->data(), interval.end->data(),
                    other.begin->data(), other.end->data(), ranks_);
}

// Those behind one that goes on may stay a while: they overlap nothing any more.
void StepAccounts::forget_before(std::deque<Interval>& intervals, Time horizon) {
  while (!intervals.empty() && intervals.front().end->highest <= horizon) intervals.pop_front();
}

void StepAccounts::gap(const Clock& begin, const Clock& end, bool blocking) {
  clock_add_span((blocking ? blocking_ : idle_).data(), begin->data(), end->data(), ranks_);
  const Interval gap{begin, end};
  for (const Interval& run : collectives_) add_overlap(gap, run);
  // Later gaps begin after this one: what ended before can meet none of them.
  forget_before(collectives_, begin->lowest);
  gaps_.push_back(gap);
}

void StepAccounts::collective(std::int32_t stream, const Clock& begin, const Clock& end) {
  const Interval run{begin, end};
  // Gaps follow one another, and a stream that rests may keep many of them.
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    if (gap->end->highest <= begin->lowest) break;
    add_overlap(run, *gap);
  }
  collective_horizon_[stream] = begin->lowest;
  Time horizon = std::numeric_limits<Time>::max();
  for (const auto& [id, time] : collective_horizon_) horizon = std::min(horizon, time);
  forget_before(gaps_, horizon);
  collectives_.push_back(run);
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
                      .end = end->times,
                      .compute = compute,
                      .communication = transfer_,
                      .exposed = exposed_,
                      .blocking = blocking_,
                      .wait = wait_,
                      .peak_allocated = peak_allocated,
                      .peak_reserved = peak_reserved});
  }
  step_begin_ = end->times;
  transfer_all_ = 0;
  for (auto* sums : {&idle_, &blocking_, &exposed_, &wait_, &transfer_}) {
    std::fill(sums->begin(), sums->end(), 0);
  }
}

}  // namespace tessera
