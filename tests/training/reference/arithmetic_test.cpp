// SPDX-License-Identifier: Apache-2.0
// Known values: of functions from the C library in double, of layers and losses by hand.
#include "training/reference/arithmetic.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "training/reference/data.h"
#include "training/reference/layer.h"
#include "training/reference/loss.h"

namespace tessera::real {
namespace {

Tensor row(std::vector<float> values) {
  Tensor t(1, static_cast<std::int64_t>(values.size()));
  t.values = std::move(values);
  return t;
}

void check_near(const std::vector<float>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO(i << ": " << values[i] << " instead of " << expected[i]);
    CHECK(std::abs(values[i] - expected[i]) < 1e-6);
  }
}

TEST_CASE("functions are as exact as they say", "[numerics]") {
  double exponential_error = 0;
  double tangent_error = 0;
  double logarithm_error = 0;
  for (int i = -87'000; i <= 88'000; ++i) {
    const float x = static_cast<float>(i) / 1000;
    const double e = std::exp(double{x});
    exponential_error = std::max(exponential_error, std::abs(exponential(x) - e) / e);
    const float y = x / 8;
    tangent_error = std::max(tangent_error, std::abs(hyperbolic_tangent(y) - std::tanh(double{y})));
    const float power = exponential(x);
    const double expected = std::log(double{power});
    logarithm_error = std::max(
        logarithm_error, std::abs(logarithm(power) - expected) / std::max(1.0, std::abs(expected)));
  }
  CHECK(exponential_error < 2e-7);
  CHECK(tangent_error < 2e-7);
  CHECK(logarithm_error < 2e-7);
}

TEST_CASE("functions at their ends", "[numerics]") {
  CHECK(exponential(0) == 1);
  CHECK(exponential(-1000) == 0);
  CHECK(std::isfinite(exponential(1000)));
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  CHECK(logarithm(1) == 0);
  CHECK(hyperbolic_tangent(0) == 0);
  CHECK(hyperbolic_tangent(1000) == 1);
  CHECK(hyperbolic_tangent(-1000) == -1);
}

TEST_CASE("layer norm of a known row", "[numerics]") {
  // Mean 2, variance 2, so the row becomes (-1, 0, 0, 1) * sqrt(2) before scale and shift.
  const auto layer = layer_norm_layer();
  const Tensor y = layer->forward(row({0, 2, 2, 4}), {{1, 1, 2, 2}, {0, 5, 0, 1}});
  const double r = 2 / std::sqrt(2 + 1e-5);
  check_near(y.values, {-r, 5, 0, 2 * r + 1});
}

TEST_CASE("GELU of known numbers", "[numerics]") {
  // torch.nn.functional.gelu(x, approximate="tanh")
  const Tensor y = gelu_layer()->forward(row({-3, -1, 0, 0.5F, 1, 3}), {});
  check_near(y.values, {-0.00363739, -0.15880801, 0, 0.34571401, 0.84119199, 2.99636261});
}

TEST_CASE("cross entropy of known logits", "[numerics]") {
  Tensor logits(2, 3);
  logits.values = {0, 0, 0, 1, 2, 3};
  Tensor targets(2, 1);
  targets.values = {1, 2};
  const Loss loss = cross_entropy(logits, targets);
  const double third = 1.0 / 3;
  const double sum = std::exp(-2.0) + std::exp(-1.0) + 1;
  CHECK(std::abs(loss.value - (std::log(3.0) + std::log(sum)) / 2) < 1e-6);
  check_near(loss.gradient.values, {third / 2, (third - 1) / 2, third / 2, std::exp(-2.0) / sum / 2,
                                    std::exp(-1.0) / sum / 2, (1 / sum - 1) / 2});
}

TEST_CASE("mean square of a known row", "[numerics]") {
  const Loss loss = mean_square(row({1, 2}), row({3, 1}));
  CHECK(loss.value == 2.5F);
  check_near(loss.gradient.values, {-2, 1});
}

TEST_CASE("attention to one position only passes its value on", "[numerics]") {
  // Width 2, one head; c_attn copies x into q, k and v, c_proj copies its input.
  const Parameters p = {{1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1}, {}, {1, 0, 0, 1}, {}};
  Tensor x(3, 2);
  x.values = {1, 2, 3, 4, 100, 100};
  const Tensor y = attention_layer(1, 3)->forward(x, p);
  // Row 0 sees itself alone. Row 1: scores (3*1 + 4*2, 25) / sqrt(2). Row 2 sees row 2 in effect.
  const double w = 1 / (1 + std::exp((11 - 25) / std::sqrt(2.0)));
  check_near({y.values.begin(), y.values.end()}, {1, 2, 1 + 2 * w, 2 + 2 * w, 100, 100});
}

TEST_CASE("tokens one further are the next tokens", "[numerics]") {
  const DataPlace place{.seed = 5, .rank = 2, .step = 3, .micro_batch = 1};
  const Tensor now = tokens(place, 2, 4, 0, 1000);
  const Tensor next = tokens(place, 2, 4, 1, 1000);
  for (std::int64_t r : {0, 1, 2, 4, 5, 6}) CHECK(next.at(r, 0) == now.at(r + 1, 0));
  CHECK(next.at(3, 0) != now.at(4, 0));  // another sequence begins
}

TEST_CASE("data depend on every coordinate", "[numerics]") {
  const DataPlace place{.seed = 5, .rank = 2, .step = 3, .micro_batch = 1};
  const float x = uniform(place, DataKind::input, 4);
  CHECK(x == uniform(place, DataKind::input, 4));
  CHECK(x != uniform(place, DataKind::input, 5));
  CHECK(x != uniform(place, DataKind::target, 4));
  for (DataPlace other : {DataPlace{6, 2, 3, 1}, DataPlace{5, 1, 3, 1}, DataPlace{5, 2, 4, 1},
                          DataPlace{5, 2, 3, 0}}) {
    CHECK(x != uniform(other, DataKind::input, 4));
  }
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const float u = uniform(place, DataKind::input, i);
    CHECK((u >= -1 && u < 1));
    sum += u;
  }
  CHECK(std::abs(sum) < 200);  // three and a half standard deviations
}

}  // namespace
}  // namespace tessera::real
