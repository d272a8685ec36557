// SPDX-License-Identifier: Apache-2.0
// Backward passes against central differences of forward passes.
#include <catch2/catch.hpp>
#include <cmath>

#include "training/reference/data.h"
#include "training/reference/layer.h"
#include "training/reference/loss.h"

namespace tessera::real {
namespace {

constexpr float nudge = 1e-2F;

struct Case {
  const char* name;
  std::unique_ptr<Layer> layer;
  std::int64_t width;
  std::vector<std::size_t> sizes;  // of the parameters
  bool reads_ids = false;
};

constexpr std::int64_t rows = 6;  // two sequences of three

Case layer_case(int number) {
  switch (number) {
    case 0: return {"Linear", linear_layer(WeightOrder::out_in), 4, {20, 5}};
    case 1: return {"Linear without bias", linear_layer(WeightOrder::out_in), 4, {20, 0}};
    case 2: return {"Conv1D", linear_layer(WeightOrder::in_out), 4, {20, 5}};
    case 3: return {"LayerNorm", layer_norm_layer(), 5, {5, 5}};
    case 4: return {"GELU", gelu_layer(), 4, {}};
    case 5: return {"ReLU", relu_layer(), 4, {}};
    case 6: return {"GPT2Attention", attention_layer(2, 3), 4, {48, 12, 16, 4}};
    case 7: return {"GPT2MLP", mlp_layer(), 3, {15, 5, 15, 3}};
    default: return {"Embedding", embedding_layer(3), 1, {12}, true};
  }
}

std::vector<float> numbers(std::size_t count, Rank salt) {
  return floats({.seed = 7, .rank = salt}, DataKind::input, 1, static_cast<std::int64_t>(count))
      .values;
}

Tensor input_for(const Case& c) {
  if (c.reads_ids) return tokens({.seed = 7}, 2, rows / 2, 0, 4);
  Tensor x = floats({.seed = 7, .rank = 99}, DataKind::input, rows, c.width);
  for (float& v : x.values) v += v < 0 ? -2 * nudge : 2 * nudge;  // away from ReLU's corner
  return x;
}

// A scalar function of a layer's output: its product with fixed numbers.
double product(const Tensor& y, const Tensor& with) {
  double sum = 0;
  for (std::size_t i = 0; i < y.values.size(); ++i) sum += double{y.values[i]} * with.values[i];
  return sum;
}

template <class F>
double difference(float& x, F&& f) {
  const float kept = x;
  x = kept + nudge;
  const double above = f();
  const float high = x;
  x = kept - nudge;
  const double below = f();
  const double step = double{high} - double{x};
  x = kept;
  return (above - below) / step;
}

TEST_CASE("every layer's backward pass is the derivative of its forward pass", "[numerics]") {
  Case c = layer_case(GENERATE(range(0, 9)));
  INFO(c.name);
  Tensor x = input_for(c);
  Parameters p;
  for (std::size_t k = 0; k < c.sizes.size(); ++k) {
    p.push_back(numbers(c.sizes[k], static_cast<Rank>(k)));
  }
  const Tensor y = c.layer->forward(x, p);
  const Tensor dy = floats({.seed = 8}, DataKind::input, y.rows, y.width);
  Parameters dp;
  for (std::size_t size : c.sizes) dp.emplace_back(size, 1.0F);  // backward adds
  const Tensor dx = c.layer->backward(x, p, dy, dp);
  auto value = [&] { return product(c.layer->forward(x, p), dy); };
  auto close = [](double gradient, double expected) {
    return std::abs(gradient - expected) < 1e-3 + 2e-3 * std::abs(expected);
  };
  for (std::size_t k = 0; k < p.size(); ++k) {
    for (std::size_t i = 0; i < p[k].size(); ++i) {
      INFO("parameter " << k << " element " << i);
      const double expected = difference(p[k][i], value);
      INFO(dp[k][i] - 1 << " instead of " << expected);
      CHECK(close(dp[k][i] - 1, expected));
    }
  }
  if (c.reads_ids) return;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    INFO("input " << i);
    const double expected = difference(x.values[i], value);
    INFO(dx.values[i] << " instead of " << expected);
    CHECK(close(dx.values[i], expected));
  }
}

TEST_CASE("the losses' gradients are their derivatives", "[numerics]") {
  const bool tokens_are_predicted = GENERATE(true, false);
  Tensor output = floats({.seed = 3}, DataKind::input, 4, 5);
  const Tensor targets = tokens_are_predicted ? tokens({.seed = 3}, 2, 2, 1, 5)
                                              : floats({.seed = 3}, DataKind::target, 4, 5);
  auto loss = [&] {
    return tokens_are_predicted ? cross_entropy(output, targets) : mean_square(output, targets);
  };
  const Tensor gradient = loss().gradient;
  for (std::size_t i = 0; i < output.values.size(); ++i) {
    const double expected = difference(output.values[i], [&] { return double{loss().value}; });
    CHECK(std::abs(gradient.values[i] - expected) < 2e-4);
  }
}

}  // namespace
}  // namespace tessera::real
