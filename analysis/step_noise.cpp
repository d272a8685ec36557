// SPDX-License-Identifier: Apache-2.0
#include "analysis/step_noise.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::analysis {
namespace {

// Two-sided 99 % points of t with 2, 4, 6, ... degrees of freedom; beyond those of the normal one.
constexpr std::array t_99{9.925, 4.604, 3.707, 3.355, 3.169, 3.055, 2.977, 2.921, 2.878, 2.845};
constexpr double t_many = 2.7;

double variance_of_mean(const std::vector<Time>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const Time value : values) mean += static_cast<double>(value) / n;
  for (const Time value : values) squares += std::pow(static_cast<double>(value) - mean, 2);
  return squares / (n - 1) / n;
}

}  // namespace

Time noise_of(const std::vector<Time>& a, const std::vector<Time>& b) {
  const std::size_t steps = std::min(a.size(), b.size());
  if (steps < 2) return 0;
  const double t = steps - 2 < t_99.size() ? t_99[steps - 2] : t_many;
  return static_cast<Time>(t * std::sqrt(variance_of_mean(a) + variance_of_mean(b)));
}

}  // namespace tessera::analysis
