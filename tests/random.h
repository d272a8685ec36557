// SPDX-License-Identifier: Apache-2.0
// Random numbers for property tests: the same everywhere, from one seed that failures print.
#pragma once

#include <cstdint>

namespace tessera::test {

/// How many generated cases of `all` to run: fewer where every access is checked, which is ten
/// times slower and looks for other faults.
constexpr std::uint64_t generated(std::uint64_t all) {
#ifdef TESSERA_SANITIZED
  return (all + 4) / 5;
#else
  return all;
#endif
}

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// 0 <= result < n. REQUIRES: n > 0.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace tessera::test
