// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/value_axis.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/random.h"

namespace tessera::inspector {
namespace {

TEST_CASE("an axis has a few marks that tell all its values apart", "[inspector][axis]") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    test::Random random(seed);
    const auto most = static_cast<double>(1 + random.below(1'000'000'000'000));
    const double least = most * static_cast<double>(random.below(1001)) / 1000;
    for (const AxisUnit unit : {AxisUnit::time, AxisUnit::memory}) {
      INFO("seed=" << seed << " " << least << " to " << most);
      const ValueAxis axis(least, most, unit);
      CHECK(axis.low <= least);
      CHECK(axis.high >= most);
      const std::vector<double> marks = axis.marks();
      CHECK(marks.size() >= 2);
      CHECK(marks.size() <= 8);
      if (unit == AxisUnit::memory) continue;  // KiB and MiB have three digits
      std::set<std::string> texts;
      for (const double mark : marks) texts.insert(axis.text(mark));
      CHECK(texts.size() == marks.size());
    }
  }
}

TEST_CASE("values that are alike are not shown from zero, others are", "[inspector][axis]") {
  const ValueAxis alike(12'000'000, 12'200'000, AxisUnit::time);
  CHECK_FALSE(alike.from_zero());
  CHECK(alike.text(alike.marks().front()).ends_with(" ms"));
  CHECK(alike.text(12'050'000) == "12.05 ms");
  CHECK(ValueAxis(1'000'000, 12'200'000, AxisUnit::time).from_zero());
  CHECK(ValueAxis(5, 5, AxisUnit::time).from_zero());
  CHECK(ValueAxis(0, 0, AxisUnit::time).from_zero());
  CHECK(round_step(1.5 * 1024 * 1024 * 1024, AxisUnit::memory) == 512.0 * 1024 * 1024);
  CHECK(round_step(86.0 * 1024 * 1024 * 1024, AxisUnit::memory) == 20.0 * 1024 * 1024 * 1024);
}

TEST_CASE("a logarithmic axis has marks on both sides of its values", "[inspector][axis]") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    test::Random random(seed);
    const double least = std::pow(10.0, static_cast<double>(random.below(1000)) / 100);
    const double most = least * std::pow(10.0, static_cast<double>(random.below(400)) / 100);
    INFO("seed=" << seed << " " << least << " to " << most);
    const LogAxis axis(least, most, 1000);
    const std::vector<double> marks = axis.marks();
    REQUIRE(marks.size() >= 3);
    CHECK(marks.size() <= 20);
    CHECK(axis.place(least) > 0);
    CHECK(axis.place(most) < 1000);
    CHECK(axis.place(marks.front()) < axis.place(least));
    CHECK(axis.place(marks.back()) > axis.place(most));
  }
}

}  // namespace
}  // namespace tessera::inspector
