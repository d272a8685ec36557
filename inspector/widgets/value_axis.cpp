// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/value_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

constexpr double most_marks = 5;
constexpr std::array digits = {1.0, 2.0, 5.0};

// The largest 1, 2 or 5 times a power of ten that is not above `value`.
double round_below(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  double found = power;
  for (const double digit : digits) {
    if (digit * power <= value * (1 + 1e-9)) found = digit * power;
  }
  return found;
}

double round_above(double value) {
  double found = round_below(value);
  for (int k = 0; found < value * (1 - 1e-9) && k < 2; ++k) found = round_below(found * 2.6);
  return found;
}

}  // namespace

double round_step(double range, AxisUnit unit) {
  const double least = std::max(range, 1e-9) / most_marks;
  if (unit == AxisUnit::time || least < 1) return round_above(least);
  for (double of = 1;; of *= 1024) {
    for (const double step : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 256.0, 512.0}) {
      if (least <= step * of) return step * of;
    }
  }
}

ValueAxis::ValueAxis(double least, double most, AxisUnit of) : low(0), high(1), step(1), unit(of) {
  most = std::max(most, 1.0);
  if (least > most / 2 && least < most) {
    step = std::max(1.0, round_step((most - least) * 1.2, unit));
    low = std::max(0.0, std::floor((least - step / 4) / step) * step);
    high = std::ceil((most + step / 4) / step) * step;
  } else {
    step = std::max(1.0, round_step(most, unit));
    high = 1.1 * most;
  }
}

std::vector<double> ValueAxis::marks() const {
  std::vector<double> found;
  for (double mark = std::ceil(low / step) * step; mark <= high; mark += step) {
    found.push_back(mark);
  }
  return found;
}

std::string ValueAxis::text(double mark) const {
  if (unit == AxisUnit::memory) return format_memory(Bytes{std::llround(mark)});
  static constexpr std::array names = {"ns", "µs", "ms", "s"};
  std::size_t k = 0;
  double of = 1;
  for (; k + 1 < names.size() && high >= of * 1000; ++k) of *= 1000;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step / of) - 1e-9)), 0, 9);
  return fmt::format("{:.{}f} {}", mark / of, decimals, names[k]);
}

LogAxis::LogAxis(double least, double most, float px) : low(0), high(1), length(px) {
  double from = round_below(least), to = round_above(most);
  // Nothing lies on an edge, and one value alone in the middle.
  if (least < from * 1.05) from = round_below(from / 1.5);
  if (most > to / 1.05) to = round_above(to * 1.5);
  if (to < 2.4 * from) from = round_below(from / 1.5);  // two marks would be too few
  low = std::log10(from);
  high = std::log10(to);
}

float LogAxis::place(double value) const {
  return static_cast<float>((std::log10(value) - low) / (high - low)) * length;
}

std::vector<double> LogAxis::marks() const {
  constexpr std::array all = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0};
  const bool short_range = high - low < 1;  // of a decade: 1, 2 and 5 would be too few
  const std::span<const double> shown = short_range ? std::span<const double>(all) : digits;
  std::vector<double> found;
  for (double power = std::floor(low); power <= high; power += 1) {
    for (const double digit : shown) {
      const double mark = digit * std::pow(10.0, power);
      const double at = std::log10(mark);
      if (at >= low - 1e-9 && at <= high + 1e-9) found.push_back(mark);
    }
  }
  return found;
}

}  // namespace tessera::inspector
