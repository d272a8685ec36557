// SPDX-License-Identifier: Apache-2.0
// When the loss scale grows and shrinks, by the rules of torch and of DeepSpeed.
#include <catch2/catch.hpp>
#include <limits>

#include "tessera/grad_scaler.h"

namespace tessera {
namespace {

void update(LossScale& scale, bool overflow, int times = 1) {
  for (int k = 0; k < times; ++k) REQUIRE(scale.update(overflow).ok());
}

TEST_CASE("the scale doubles after 2000 good steps and halves at an overflow", "[scaler]") {
  LossScale scale({});
  CHECK(scale.value() == 65536);
  update(scale, false, 1999);
  CHECK(scale.value() == 65536);
  update(scale, false);
  CHECK(scale.value() == 131072);
  update(scale, false, 1999);
  update(scale, true);
  CHECK(scale.value() == 65536);
  update(scale, false, 1999);  // counted anew
  CHECK(scale.value() == 65536);
  update(scale, true, 3);
  CHECK(scale.value() == 8192);
}

TEST_CASE("the scale does not grow to infinity", "[scaler]") {
  LossScale scale({.initial_scale = 0x1p127F, .growth_interval = 1});
  update(scale, false, 3);
  CHECK(scale.value() == 0x1p127F);
}

TEST_CASE("DeepSpeed's scale ignores the first overflow of a window", "[scaler]") {
  LossScale scale(deepspeed_loss_scale());
  update(scale, true);
  CHECK(scale.value() == 65536);
  update(scale, true);
  CHECK(scale.value() == 32768);
  update(scale, true);  // the hysteresis is used up
  CHECK(scale.value() == 16384);
  update(scale, false, 1000);
  CHECK(scale.value() == 32768);
  update(scale, true);  // and comes back with growth
  CHECK(scale.value() == 32768);
}

TEST_CASE("DeepSpeed's scale fails when it cannot shrink any more", "[scaler][errors]") {
  LossScale scale(deepspeed_loss_scale());
  update(scale, true, 17);  // 1 ignored, 16 halvings
  CHECK(scale.value() == 1);
  const Status status = scale.update(true);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("Current loss scale already at minimum (1)") == 0);
}

TEST_CASE("a loaded scale goes on where it was saved", "[scaler]") {
  LossScale first({.growth_interval = 3}), second({.growth_interval = 3});
  update(first, false, 2);
  second.load(first.state());
  update(second, false);
  CHECK(second.value() == 131072);
}

}  // namespace
}  // namespace tessera
