// SPDX-License-Identifier: Apache-2.0
// Axes of values with marks at round numbers, and what the marks say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::inspector {

enum class AxisUnit : std::uint8_t { time, memory };  // ns, bytes in powers of 1024

/// Between marks of `range`, of which there are at most five: 1, 2 or 5 times a power of ten, of
/// memory also 256 and 512 of a unit.
double round_step(double range, AxisUnit unit);

/// A scale from `low` to `high` with marks every `step`.
struct ValueAxis {
  double low, high, step;
  AxisUnit unit;

  /// For values from `least` to `most`: from zero, unless they are all in the upper half.
  ValueAxis(double least, double most, AxisUnit unit);
  bool from_zero() const { return low == 0; }
  double share(double value) const { return (value - low) / (high - low); }
  std::vector<double> marks() const;
  /// With as many digits as tell marks apart: "12.05 ms".
  std::string text(double mark) const;
};

/// A logarithmic scale of `length` px with marks at 1, 2 and 5, or, of less
/// than a decade, at every digit.
struct LogAxis {
  double low, high;  // logarithms
  float length;

  /// REQUIRES: 0 < least <= most.
  LogAxis(double least, double most, float px);
  float place(double value) const;
  std::vector<double> marks() const;
};

}  // namespace tessera::inspector
