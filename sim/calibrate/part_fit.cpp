// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tessera/sim/calibrate.h"

namespace tessera::sim {
namespace {

// Below this multiple between the largest and the least expected time, a start and a factor cannot
// be told apart.
constexpr double spread_min = 1.3;

PartTime factor_alone(const std::vector<MeasuredPart>& samples) {
  double measured = 0, expected = 0;
  for (const MeasuredPart& s : samples) {
    measured += s.measured_ns;
    expected += s.expected_ns;
  }
  PartTime time;
  if (expected > 0) {
    time.factor = measured / expected;
  } else {
    time.start_ns = std::llround(measured / static_cast<double>(samples.size()));
  }
  return time;
}

// The least sum of ((start + factor * expected) / measured - 1)^2, neither number below 0.
PartTime least_squares(const std::vector<MeasuredPart>& samples) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const MeasuredPart& s : samples) {
    const double x = 1 / s.measured_ns, y = s.expected_ns / s.measured_ns;
    aa += x * x;
    ab += x * y;
    bb += y * y;
    a += x;
    b += y;
  }
  const double determinant = aa * bb - ab * ab;
  double start = determinant > 0 ? (a * bb - b * ab) / determinant : 0;
  double factor = determinant > 0 ? (aa * b - ab * a) / determinant : b / bb;
  if (start < 0) {
    start = 0;
    factor = b / bb;
  }
  if (factor < 0) {
    factor = 0;
    start = a / aa;
  }
  return {.part = {}, .start_ns = std::llround(start), .factor = factor};
}

}  // namespace

std::vector<PartTime> fit_parts(const std::vector<MeasuredPart>& samples) {
  std::map<std::pair<std::string, Phase>, std::vector<MeasuredPart>> parts;
  for (const MeasuredPart& sample : samples) parts[{sample.part, sample.phase}].push_back(sample);
  std::vector<PartTime> out;
  for (const auto& [key, same] : parts) {
    const auto [least, most] = std::minmax_element(
        same.begin(), same.end(),
        [](const MeasuredPart& a, const MeasuredPart& b) { return a.expected_ns < b.expected_ns; });
    const bool spread =
        least->expected_ns > 0 && most->expected_ns > spread_min * least->expected_ns;
    PartTime time = spread ? least_squares(same) : factor_alone(same);
    time.part = key.first;
    time.phase = key.second;
    out.push_back(std::move(time));
  }
  return out;
}

}  // namespace tessera::sim
