// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/time_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/analysis/text.h"

namespace tessera::inspector {
namespace {

constexpr Time shortest = 10;

// The smallest of 1, 2, 5 times a power of ten that is at least `wanted`, or the largest there is.
Time step_of(double wanted) {
  constexpr Time largest = 1'000'000'000'000'000'000;
  for (Time power = 1; power < largest; power *= 10) {
    for (Time digit : {1, 2, 5}) {
      if (static_cast<double>(digit * power) >= wanted) return digit * power;
    }
  }
  return largest;
}

struct Unit {
  Time ns;
  const char* name;
};

Unit unit_of(Time step) {
  if (step >= 1'000'000'000) return {1'000'000'000, "s"};
  if (step >= 100'000) return {1'000'000, "ms"};
  if (step >= 100) return {1'000, "µs"};
  return {1, "ns"};
}

std::string in_unit(Time time, Unit unit, Time step) {
  int decimals = 0;
  for (Time s = unit.ns; s > step && decimals < 9; s /= 10) ++decimals;
  const double value = static_cast<double>(time) / static_cast<double>(unit.ns);
  return analysis::with_separators(fmt::format("{:.{}f}", value, decimals)) + " " + unit.name;
}

}  // namespace

TimeView::TimeView(Time from, Time to, Time limit) : limit_(std::max<Time>(limit, shortest)) {
  show(from, to);
}

void TimeView::show(Time from, Time to) {
  const Time longest = limit_ + limit_ / 5;
  const Time length = std::clamp(to - from, shortest, longest);
  // Half a screen of nothing on either side at most.
  from_ = std::clamp(from, -length / 2, std::max<Time>(-length / 2, limit_ - length / 2));
  to_ = from_ + length;
}

float TimeView::x_of(Time time, float left, float width) const {
  return left + static_cast<float>(static_cast<double>(time - from_) / ns_per_px(width));
}

Time TimeView::time_at(float x, float left, float width) const {
  return from_ + static_cast<Time>(static_cast<double>(x - left) * ns_per_px(width));
}

void TimeView::zoom(double factor, double anchor) {
  const auto length = static_cast<double>(to_ - from_);
  const double fixed = static_cast<double>(from_) + anchor * length;
  const double wanted = std::max(static_cast<double>(shortest), length / factor);
  const auto from = static_cast<Time>(std::llround(fixed - anchor * wanted));
  show(from, from + static_cast<Time>(std::llround(wanted)));
}

void TimeView::pan(double share) {
  const auto move = static_cast<Time>(share * static_cast<double>(to_ - from_));
  show(from_ + move, to_ + move);
}

Ruler ruler(const TimeView& view, float width_px, float label_px) {
  if (!(width_px >= label_px) || label_px <= 0) return {};  // not even one label
  const Time step = step_of(view.ns_per_px(width_px) * static_cast<double>(label_px) * 1.4);
  const Unit unit = unit_of(step);
  Ruler out;
  Time first = view.from() / step * step;
  if (first < view.from()) first += step;
  const bool offsets = std::max(std::abs(view.from()), std::abs(view.to())) >= unit.ns * 100'000;
  constexpr Time coarse = 1'000'000'000'000;  // moments of any coarser step are whole seconds, too
  if (offsets) out.base = analysis::moment_text(first, 100 * std::min(step, coarse));
  for (Time time = first; time < view.to(); time += step) {
    out.ticks.push_back(
        {time, offsets ? "+" + in_unit(time - first, unit, step) : in_unit(time, unit, step)});
  }
  return out;
}

std::int64_t every_nth(double apart_px, double wanted_px) {
  if (!(apart_px > 0)) return 1;
  return std::max<Time>(1, step_of(wanted_px / apart_px));
}

}  // namespace tessera::inspector
