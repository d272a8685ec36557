// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/time_axis.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/random.h"

namespace tessera::inspector {
namespace {

TEST_CASE("zooming keeps the time under the cursor", "[inspector][axis]") {
  TimeView view(1'000'000, 2'000'000, 4'000'000);
  const Time under = view.time_at(300, 100, 800);
  view.zoom(2, 200.0 / 800);
  CHECK(view.to() - view.from() == 500'000);
  CHECK(std::abs(view.time_at(300, 100, 800) - under) <= 1);
}

TEST_CASE("no zoom or pan leaves the run out of sight", "[inspector][axis]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Time limit = 1 + random.below(10'000'000'000);
  TimeView view(0, limit, limit);
  for (int k = 0; k < 200; ++k) {
    random.chance(50) ? view.zoom(random.chance(50) ? 3 : 0.3, 0.5)
                      : view.pan(static_cast<double>(random.below(21) - 10) / 5);
    CHECK(view.to() - view.from() >= 10);
    CHECK(view.from() < std::max<Time>(limit, 10));
    CHECK(view.to() > 0);
  }
}

TEST_CASE("labels of a ruler never touch", "[inspector][axis]") {
  const std::uint64_t seed = GENERATE(range(1, 100));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Time from = random.below(5'000'000'000);
  const Time length = 10 + random.below(random.chance(50) ? 1'000'000'000 : 5'000);
  const TimeView view(from, from + length, 10'000'000'000);
  const float width = 400 + static_cast<float>(random.below(2000));
  constexpr float label = 90;
  const auto ticks = ruler(view, width, label).ticks;
  for (std::size_t k = 1; k < ticks.size(); ++k) {
    const float apart = view.x_of(ticks[k].time, 0, width) - view.x_of(ticks[k - 1].time, 0, width);
    CHECK(apart >= label);
    CHECK(ticks[k].label != ticks[k - 1].label);
    CHECK(ticks[k].label.size() <= 14);  // what `label` has room for
  }
}

TEST_CASE("a ruler without room for a label has no ticks", "[inspector][axis]") {
  const TimeView view(0, 1'000'000, 1'000'000);
  for (const float width : {-100.0F, 0.0F, 1.0F, 89.0F}) {
    INFO("width=" << width);
    CHECK(ruler(view, width, 90).ticks.empty());
  }
  const TimeView endless(0, std::numeric_limits<Time>::max() / 2,
                         std::numeric_limits<Time>::max() / 2);
  CHECK(ruler(endless, 100, 90).ticks.size() < 20);
}

TEST_CASE("far from the start labels are offsets to a base that is named beside them",
          "[inspector][axis]") {
  const TimeView view(700'200'000, 700'201'000, 1'000'000'000);
  const Ruler shown = ruler(view, 1000, 90);
  REQUIRE(shown.ticks.size() > 2);
  CHECK(shown.base == "700,200.0 µs");
  CHECK(shown.ticks[0].label == "+0.0 µs");
  CHECK(shown.ticks[1].label == "+0.2 µs");
  CHECK(ruler(TimeView(0, 1000, 1000), 1000, 90).base.empty());
}

TEST_CASE("of many things every n-th has room for a label", "[inspector][axis]") {
  CHECK(every_nth(100, 90) == 1);
  CHECK(every_nth(50, 90) == 2);
  CHECK(every_nth(0.5, 90) == 200);
  CHECK(every_nth(0, 90) == 1);
}

}  // namespace
}  // namespace tessera::inspector
