// SPDX-License-Identifier: Apache-2.0
#include "tessera/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace tessera {
namespace {

using Schedule = LearningRate::Schedule;

LearningRate rate(Schedule schedule) {
  return {
      .schedule = schedule, .peak = 1, .minimum = 0.1F, .warmup = 10, .steps = 110, .decay = 20};
}

TEST_CASE("every schedule rises to the peak in its warmup", "[learning_rate]") {
  for (Schedule s : {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    CHECK(rate(s).at(0) == 0.1F);
    CHECK(rate(s).at(4) == 0.5F);
    CHECK(rate(s).at(9) == 1.0F);
    CHECK(rate(s).at(10) == 1.0F);
  }
}

TEST_CASE("schedules fall as their formulas say, within half a unit of float32",
          "[learning_rate]") {
  for (std::int64_t step = 10; step < 110; ++step) {
    const double progress = static_cast<double>(step - 10) / 100;
    CHECK(rate(Schedule::constant).at(step) == 1);
    CHECK(rate(Schedule::linear).at(step) == Approx(0.1 + 0.9 * (1 - progress)).epsilon(1e-7));
    CHECK(rate(Schedule::cosine).at(step) ==
          Approx(0.1 + 0.9 * (1 + std::cos(M_PI * progress)) / 2).epsilon(1e-7));
    const double stable = step < 90 ? 1 : 1 - static_cast<double>(step - 90) / 20;
    CHECK(rate(Schedule::wsd).at(step) == Approx(0.1 + 0.9 * stable).epsilon(1e-7));
  }
}

TEST_CASE("after the last step the rate stays", "[learning_rate]") {
  for (Schedule s : {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    CHECK(rate(s).at(5000) == rate(s).at(109));
  }
}

TEST_CASE("a schedule that makes no sense is refused", "[learning_rate]") {
  auto refused = [](auto change) {
    LearningRate wrong = rate(Schedule::wsd);
    CHECK(wrong.check().ok());
    change(wrong);
    return wrong.check().message();
  };
  CHECK(refused([](LearningRate& r) { r.peak = 0; }) ==
        "learning rate: the peak must be above 0, found 0");
  CHECK(refused([](LearningRate& r) { r.peak = NAN; }) != "");
  CHECK(refused([](LearningRate& r) { r.minimum = 2; }) != "");
  CHECK(refused([](LearningRate& r) { r.steps = 0; }) != "");
  CHECK(refused([](LearningRate& r) { r.warmup = 111; }) != "");
  CHECK(refused([](LearningRate& r) { r.decay = 101; }) != "");
}

}  // namespace
}  // namespace tessera
