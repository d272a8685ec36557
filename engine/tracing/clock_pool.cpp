// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/clock_pool.h"

#include <array>
#include <span>

namespace tessera {
namespace {

// Steps that are worked out in one pass. More save little, and the clocks in between stay.
constexpr std::int32_t steps_max = 16;
// So many ranks stay in the first cache meanwhile.
constexpr std::int64_t ranks_at_once = 1024;

}  // namespace

void ClockData::become(Time time) {
  kind_ = Kind::same;
  lowest = highest = time;
}

void ClockData::become(ClockData& before, const ClockStep& step) {
  if (before.kind_ == Kind::later && before.steps_ == steps_max) before.work_out();
  kind_ = Kind::later;
  steps_ = before.kind_ == Kind::later ? before.steps_ + 1 : 1;
  step_ = step;
  before_ = &before;
  before_->keep();
  lowest = before.lowest + step.jitter.base;
  highest = before.highest + longest(step.jitter);
}

void ClockData::work_out() const {
  std::array<ClockStep, steps_max> steps;
  std::size_t first = steps.size();
  const ClockData* from = this;
  for (; from->kind_ == Kind::later; from = from->before_) steps[--first] = from->step_;
  const auto n = static_cast<std::int64_t>(times_.size());
  for (std::int64_t begin = 0; begin < n; begin += ranks_at_once) {
    const std::int64_t count = std::min(ranks_at_once, n - begin);
    Time* const to = times_.data() + begin;
    if (from->kind_ == Kind::same) {
      std::fill_n(to, count, from->lowest);
    } else {
      std::copy_n(from->times_.data() + begin, count, to);
    }
    clock_add_steps(to, std::span(steps).subspan(first), count);
    for (std::size_t k = first; k < steps.size(); ++k) steps[k].rank_key += count;
  }
  kind_ = Kind::known;
  if (before_ != nullptr) std::exchange(before_, nullptr)->drop();
}

void ClockData::take_back() {
  if (before_ != nullptr) std::exchange(before_, nullptr)->drop();
  kind_ = Kind::known;
  Home* const home = home_;
  home->free.emplace_back(this);
  if (--home->out == 0 && home->closed) delete home;
}

}  // namespace tessera
