// SPDX-License-Identifier: Apache-2.0
#include "analysis/step_noise.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::analysis {
namespace {

// Two-sided 99.9 % points of t with 2, 4, 6, ... degrees of freedom; beyond those of the normal
// one. A comparison asks about ten causes, so that one in a hundred comparisons names chance.
constexpr std::array t_points{31.60, 8.610, 5.959, 5.041, 4.587, 4.318, 4.140, 4.015, 3.922, 3.850};
constexpr double t_many = 3.5;

double variance_of_mean(const std::vector<Time>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const Time value : values) mean += static_cast<double>(value) / n;
  for (const Time value : values) {
    const double distance = static_cast<double>(value) - mean;
    squares += distance * distance;
  }
  return squares / (n - 1) / n;
}

}  // namespace

Time noise_of(const std::vector<Time>& a, const std::vector<Time>& b) {
  const std::size_t steps = std::min(a.size(), b.size());
  if (steps < 2) return 0;
  const double t = steps - 2 < t_points.size() ? t_points[steps - 2] : t_many;
  return static_cast<Time>(t * std::sqrt(variance_of_mean(a) + variance_of_mean(b)));
}

}  // namespace tessera::analysis
