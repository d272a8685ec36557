// SPDX-License-Identifier: Apache-2.0
// Random arrays of each element type, and what they are in double precision.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tessera/math_arrays.h"
#include "tests/random.h"

namespace tessera::test {

using Doubles = std::vector<double>;

class Numbers {
 public:
  Numbers(std::size_t count, DType dtype)
      : dtype_(dtype), floats_(count), halves_(count), short_halves_(count) {}

  static Numbers random(Random& random, std::int64_t count, DType dtype, double scale = 1) {
    Numbers out(static_cast<std::size_t>(count), dtype);
    for (std::size_t i = 0; i < out.floats_.size(); ++i) {
      const double u = static_cast<double>(random.below(20001) - 10000) / 10000.0;
      out.set(i, static_cast<float>(scale * u));
    }
    return out;
  }

  void set(std::size_t i, float value) {
    kernels::store(floats_[i], value);
    kernels::store(halves_[i], value);
    kernels::store(short_halves_[i], value);
  }
  std::size_t size() const { return floats_.size(); }
  kernels::Array array() {
    if (dtype_ == DType::float32) return {floats_.data(), dtype_};
    if (dtype_ == DType::float16) return {short_halves_.data(), dtype_};
    return {halves_.data(), dtype_};
  }
  double operator[](std::size_t i) const {
    if (dtype_ == DType::float32) return static_cast<double>(floats_[i]);
    return static_cast<double>(dtype_ == DType::float16 ? kernels::load(short_halves_[i])
                                                        : kernels::load(halves_[i]));
  }
  Doubles doubles() const {
    Doubles out;
    for (std::size_t i = 0; i < size(); ++i) out.push_back((*this)[i]);
    return out;
  }

 private:
  DType dtype_;
  std::vector<float> floats_;
  std::vector<kernels::BFloat16> halves_;
  std::vector<kernels::Float16> short_halves_;
};

inline void check_near(const Numbers& actual, const Doubles& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  double worst = 0;
  bool same_nans = true;  // which std::max does not see
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
    same_nans = same_nans && std::isnan(actual[i]) == std::isnan(expected[i]);
  }
  CHECK(worst <= tolerance * (largest + 1e-3));
  CHECK(same_nans);
}

/// A few units in the last place, times what sums lose.
inline double tolerance(DType dtype) {
  if (dtype == DType::float16) return 1.5e-3;
  return dtype == DType::float32 ? 3e-6 : 1.2e-2;
}

/// The tolerance of attention, whose weights are rounded in between.
inline double attention_tolerance(DType dtype) {
  if (dtype == DType::float16) return 4e-3;
  return dtype == DType::float32 ? 2e-5 : 3e-2;
}

/// The dtypes that kernels compute with.
inline constexpr DType computed_dtypes[] = {DType::float32, DType::bfloat16, DType::float16};

}  // namespace tessera::test
