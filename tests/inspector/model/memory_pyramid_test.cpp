// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/memory_pyramid.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera::inspector {
namespace {

struct Samples {
  std::vector<Time> time;
  std::vector<MemoryClass> classes;
  std::vector<Bytes> delta, allocated, reserved;
};

Samples random_samples(test::Random& random, std::int64_t count) {
  Samples s;
  MemoryStack held{};
  Time at = 0;
  Bytes allocated{}, reserved{};
  for (std::int64_t k = 0; k < count; ++k) {
    at += random.below(4);
    const auto c = static_cast<std::size_t>(random.below(8));
    Bytes delta{1 + random.below(1000)};
    if (random.chance(1)) delta = Bytes{1'000'000};  // a rare peak
    if (held[c] > Bytes{0} && random.chance(60)) delta = -held[c];
    held[c] += delta;
    allocated += delta;
    reserved = std::max(random.chance(5) ? Bytes{} : reserved, allocated);  // given back, rarely
    s.time.push_back(at);
    s.classes.push_back(static_cast<MemoryClass>(c));
    s.delta.push_back(delta);
    s.allocated.push_back(allocated);
    s.reserved.push_back(reserved);
  }
  return s;
}

MemoryPyramid pyramid_of(const Samples& s) {
  return MemoryPyramid(s.time, s.classes, s.delta, s.allocated, s.reserved);
}

TEST_CASE("a peak of one event is visible at every zoom", "[inspector][memory]") {
  const std::uint64_t seed = GENERATE(range(1, 60));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Samples s = random_samples(random, 1 + random.below(3000));
  const MemoryPyramid pyramid = pyramid_of(s);
  CHECK(pyramid.consistent());
  CHECK(pyramid.most_reserved() == *std::max_element(s.reserved.begin(), s.reserved.end()));
  const Time end = s.time.back() + 10;
  for (const int columns : {1, 7, 100, 1400}) {
    Bytes highest{};
    for (int c = 0; c < columns; ++c) {
      const Time from = end * c / columns;
      const Time to = std::max(from + 1, end * (c + 1) / columns);
      highest = std::max(highest, pyramid.allocated(pyramid.highest(from, to)));
    }
    INFO("columns " << columns);
    CHECK(highest == *std::max_element(s.allocated.begin(), s.allocated.end()));
  }
}

TEST_CASE("the highest moment of any range equals a search through it", "[inspector][memory]") {
  const std::uint64_t seed = GENERATE(range(1, 60));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Samples s = random_samples(random, 1 + random.below(800));
  const MemoryPyramid pyramid = pyramid_of(s);
  for (int k = 0; k < 50; ++k) {
    const Time from = random.below(s.time.back() + 5) - 2;
    const Time to = from + 1 + random.below(s.time.back() + 5);
    Bytes expected{};
    bool any = false;
    for (std::size_t i = 0; i < s.time.size(); ++i) {
      const bool in_force = s.time[i] < from && (i + 1 == s.time.size() || s.time[i + 1] > from);
      const bool inside = s.time[i] >= from && s.time[i] < to;
      if (!in_force && !inside) continue;
      expected = any ? std::max(expected, s.allocated[i]) : s.allocated[i];
      any = true;
    }
    const std::ptrdiff_t found = pyramid.highest(from, to);
    CHECK((found >= 0) == any);
    if (any) CHECK(pyramid.allocated(found) == expected);
  }
}

TEST_CASE("the stack at a sample sums to what is reserved", "[inspector][memory]") {
  test::Random random(11);
  const Samples s = random_samples(random, 500);
  const MemoryPyramid pyramid = pyramid_of(s);
  for (std::ptrdiff_t i = 0; i < 500; i += 7) {
    Bytes sum{};
    for (const Bytes bytes : pyramid.stack(i)) sum += bytes;
    CHECK(sum == pyramid.reserved(i));
  }
}

TEST_CASE("classes that do not sum to the allocator's counter are noticed", "[inspector][memory]") {
  test::Random random(12);
  Samples s = random_samples(random, 100);
  s.delta[40] += Bytes{1};
  CHECK_FALSE(pyramid_of(s).consistent());
}

TEST_CASE("a rank without samples has nothing at any time", "[inspector][memory]") {
  const Samples none;
  const MemoryPyramid pyramid = pyramid_of(none);
  CHECK(pyramid.highest(0, 100) == -1);
  CHECK(pyramid.at(5) == -1);
}

}  // namespace
}  // namespace tessera::inspector
