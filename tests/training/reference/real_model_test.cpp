// SPDX-License-Identifier: Apache-2.0
// RealModel: a whole model's gradients, a loss that falls, and what it refuses.
#include "tessera/real_model.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/training/reference/real_models.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera {
namespace {

using Catch::Contains;
using test::parsed;
using test::UnshardedTraining;

Model model_number(int number) {
  switch (number) {
    case 0: return test::mlp_chain();
    case 1: return test::tiny_gpt2();
    case 2: return test::repeated();
    default: return test::frozen_and_tied();
  }
}

TEST_CASE("the gradients of whole models are derivatives of their losses", "[numerics]") {
  const Model model = model_number(GENERATE(range(0, 4)));
  const RealModelOptions data{
      .batch = 2, .sequence_length = 3, .seed = 11, .same_data_every_step = true};
  const AdamOptions still{.learning_rate = 0};
  UnshardedTraining training(model, data, {.adam = still});
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    training.step();
    const std::vector<float> gradient = training.gradient(id);
    for (std::size_t i = 0; i < gradient.size(); i += 3) {
      INFO(model.parameters[p].name << " element " << i);
      if (!model.parameters[p].requires_grad) {
        CHECK(gradient[i] == 0);
        continue;
      }
      const float kept = training.values(id)[i];
      auto loss_at = [&](float value) {
        training.set_value(id, i, value);
        training.step();
        return double{training.loss()};
      };
      auto slope = [&](float nudge) {
        const float high = kept + nudge;
        const float low = kept - nudge;
        return (loss_at(high) - loss_at(low)) / (double{high} - double{low});
      };
      // Richardson: without the error of second order.
      const double expected = (4 * slope(1e-2F) - slope(2e-2F)) / 3;
      training.set_value(id, i, kept);
      INFO(gradient[i] << " instead of " << expected);
      CHECK(std::abs(gradient[i] - expected) < 2e-4 + 2e-3 * std::abs(expected));
    }
  }
}

TEST_CASE("the loss of a fixed batch falls", "[numerics]") {
  const int number = GENERATE(range(0, 4));
  const Model model = model_number(number);
  const RealModelOptions data{
      .batch = 2, .sequence_length = 5, .seed = 1, .world_size = 2, .same_data_every_step = true};
  UnshardedTraining training(model, data, {.adam = {.learning_rate = 1e-2F}});
  training.step();
  const float first = training.loss();
  for (int step = 1; step < 30; ++step) training.step();
  CHECK(std::isfinite(first));
  CHECK(training.loss() < 0.9F * first);
  if (number == 1) {
    CHECK(first > 2.2F);  // ln 11 is 2.4: it begins knowing nothing
    CHECK(training.loss() < 1.0F);
  }
}

TEST_CASE("training gives the same bits with every compiler", "[numerics]") {
  const Model model = test::tiny_gpt2();
  UnshardedTraining training(model, {.batch = 2, .sequence_length = 5, .world_size = 2}, {});
  for (int step = 0; step < 10; ++step) training.step();
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a over the bits of all parameters
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    for (float value : training.values(ParameterId{static_cast<std::int32_t>(p)})) {
      hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001B3ULL;
    }
  }
  CHECK(hash == 0x1EDC4BDB5305E6E5ULL);
}

TEST_CASE("ranks and steps have losses of their own", "[numerics]") {
  const Model model = test::tiny_gpt2();
  auto real = RealModel::create(model, {.world_size = 2});
  REQUIRE(real.ok());
  CHECK(real->loss() == 0);
  CHECK(real->losses(1).empty());

  UnshardedTraining training(model, {.sequence_length = 4, .world_size = 3},
                             {.accumulation = 2, .adam = {.learning_rate = 0}});
  training.step();
  float sum = 0;
  std::set<float> different;
  for (Rank r = 0; r < 3; ++r) {
    REQUIRE(training.losses(r).size() == 2);
    for (float loss : training.losses(r)) sum += loss, different.insert(loss);
  }
  CHECK(different.size() == 6);
  CHECK(training.loss() == sum / 6);
  training.step();
  CHECK(!different.contains(training.losses(0)[0]));  // nothing was learnt: the data differ
}

std::string refusal(const Model& model, const RealModelOptions& options = {}) {
  const auto result = RealModel::create(model, options);
  REQUIRE(!result.ok());
  return std::string(name_of(result.status().code())) + ": " + result.status().message();
}

std::string tree(const std::string& modules) {
  return R"({"tessera_model": 1, "name": "m", "root": {"class": "Net", "modules": [)" + modules +
         "]}}";
}

TEST_CASE("modules that cannot be computed are refused by name", "[numerics]") {
  const Model lstm = parsed(tree(R"({"name": "cell", "class": "LSTM"})"));
  CHECK_THAT(refusal(lstm), Contains("not_supported: module cell (LSTM)") && Contains("GPT2MLP"));

  const Model widths = parsed(tree(
      R"({"name": "a", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 3]}]},
         {"name": "b", "class": "Linear", "parameters": [{"name": "weight", "shape": [2, 5]}]})"));
  CHECK_THAT(refusal(widths), Contains("module b (Linear) reads rows of width 5, but module a "
                                       "(Linear) has width 4"));
  CHECK_THAT(refusal(widths, {.input_features = 7}),
             Contains("width 3, but the input has width 7"));

  Model late = test::frozen_and_tied();
  std::swap(late.forward[0], late.forward[1]);
  CHECK_THAT(refusal(late), Contains("module tokens (Embedding) reads token ids"));

  CHECK_THAT(refusal(parsed(tree(R"({"name": "a", "class": "GELU"})"))),
             Contains("set input_features"));
}

TEST_CASE("parameters that do not belong to the class are refused by name", "[numerics]") {
  auto linear = [](const std::string& parameters) {
    return parsed(tree(R"({"name": "a", "class": "Linear", "parameters": [)" + parameters + "]}"));
  };
  CHECK_THAT(refusal(linear("")), Contains("module a (Linear) needs a parameter called weight"));
  CHECK_THAT(refusal(linear(R"({"name": "weight", "shape": [4]})")),
             Contains("weight of shape [4]") && Contains("expected [any, any]"));
  const std::string weight = R"({"name": "weight", "shape": [4, 3]}, )";
  CHECK_THAT(refusal(linear(weight + R"({"name": "bias", "shape": [3]})")),
             Contains("bias of shape [3]") && Contains("expected [4]"));
  CHECK_THAT(refusal(linear(weight + R"({"name": "g", "shape": [3]})")),
             Contains("has the parameter a.g, which its class does not use"));
}

TEST_CASE("sizes that make no sense are refused", "[numerics]") {
  CHECK_THAT(refusal(test::mlp_chain(), {.batch = 0}), Contains("batch 0"));
  CHECK_THAT(refusal(test::tiny_gpt2(), {.sequence_length = 7}),
             Contains("module wpe (Embedding) has 6 positions, fewer than the sequence length 7"));
  Model headless = test::tiny_gpt2();
  headless.attention_heads = 3;
  CHECK_THAT(refusal(headless), Contains("h.0.attn (GPT2Attention)") && Contains("3"));
}

}  // namespace
}  // namespace tessera
