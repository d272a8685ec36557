// SPDX-License-Identifier: Apache-2.0
#include "tessera/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr double pi = 3.14159265358979323846;

// The sine (x - x^3/3! + ...) or cosine (1 - x^2/2! + ...) to beyond double's precision, for 0 <= x
// <= pi / 4.
double series(double first, double x, int power) {
  double term = first;
  double sum = term;
  for (int k = power; k < 20; k += 2) {
    term *= -x * x / (k * (k + 1));
    sum += term;
  }
  return sum;
}

// cos(pi * x) for 0 <= x <= 1, without libm.
double cos_pi(double x) {
  if (x > 0.5) return -cos_pi(1 - x);
  if (x > 0.25) {
    const double complement = pi * (0.5 - x);  // the cosine is the sine of it
    return series(complement, complement, 2);
  }
  return series(1, pi * x, 1);
}

Status wrong(const char* what, double found) {
  return Status(Code::invalid_argument, fmt::format("learning rate: {}, found {}", what, found));
}

}  // namespace

float LearningRate::at(std::int64_t step) const {
  TESSERA_ASSERT(step >= 0 && steps >= 1, "a step of a run with steps");
  step = std::min(step, steps - 1);
  if (step < warmup) {  // step + 1: the first step learns, and step `warmup` - 1 has the peak
    return static_cast<float>(peak * static_cast<double>(step + 1) / static_cast<double>(warmup));
  }
  const std::int64_t begin = schedule == Schedule::wsd ? steps - decay : warmup;
  const std::int64_t length = std::max<std::int64_t>(steps - begin, 1);
  if (schedule == Schedule::constant || step < begin) return peak;
  const double progress = static_cast<double>(step - begin) / static_cast<double>(length);
  const double left = schedule == Schedule::cosine ? (1 + cos_pi(progress)) / 2 : 1 - progress;
  return static_cast<float>(minimum + (static_cast<double>(peak) - minimum) * left);
}

Status LearningRate::check() const {
  if (!(peak > 0) || std::isinf(peak)) return wrong("the peak must be above 0", peak);
  if (!(minimum >= 0 && minimum <= peak)) {
    return wrong("the minimum must lie between 0 and the peak", minimum);
  }
  if (steps < 1) return wrong("a run needs at least 1 step", static_cast<double>(steps));
  if (warmup < 0 || warmup > steps) {
    return wrong("the warmup must lie within the run's steps", static_cast<double>(warmup));
  }
  if (decay < 0 || decay > steps - warmup) {
    return wrong("the decay must lie between the warmup and the end", static_cast<double>(decay));
  }
  return {};
}

}  // namespace tessera
