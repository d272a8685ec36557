// SPDX-License-Identifier: Apache-2.0
// Loss, gradients and logits of language models against double precision.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "tessera/decoder.h"
#include "tessera/fully_shard.h"
#include "tessera/host_runtime.h"
#include "tessera/language_model.h"
#include "tests/random.h"
#include "tests/training/language/reference.h"
#include "tests/training/language/small_models.h"

namespace tessera {
namespace {

using test::Values;

struct Case {
  const char* name;
  Model (*model)();
  std::int64_t batch, length;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{"GPT-2", test::small_gpt2, 2, 7},
                                        {"GPT-2, two blocks of rows", test::small_gpt2, 1, 70},
                                        {"Qwen2", test::small_qwen2, 3, 5},
                                        {"Llama 3.1, tied", test::small_llama, 1, 67},
                                        {"exact GELU", test::exact_gelu, 2, 5},
                                        {"ReLU, scores as they are", test::relu_unscaled, 2, 5},
                                        {"scores by block", test::scaled_by_block, 2, 5},
                                        {"windows", test::windowed_mistral, 1, 67},
                                        {"some windows", test::half_windowed_qwen2, 2, 9},
                                        {"linear, biases", test::linear_llama, 2, 6},
                                        {"dropout", test::dropping_gpt2, 2, 69},
                                        {"dropout of attention", test::dropping_qwen2, 2, 9},
                                        {"YaRN", test::yarn_llama, 1, 40}};
  return all;
}

// Large enough that everything matters.
float value_of(const Model& model, ParameterId id, std::int64_t i) {
  test::Random random(static_cast<std::uint64_t>(1 + id.value * 100003 + i));
  const float u = static_cast<float>(random.below(2001) - 1000) / 1000.0F;
  const Parameter& p = model.parameter(id);
  if (p.shape.size() > 1) return 0.5F * u;
  return (p.name.ends_with("weight") ? 1.0F : 0.0F) + 0.3F * u;
}

Values values_of(const Model& model) {
  Values out;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    auto& values = out.emplace_back();
    const ParameterId id{static_cast<std::int32_t>(p)};
    for (std::int64_t i = 0; i < model.parameter(id).numel().value; ++i) {
      values.push_back(static_cast<double>(value_of(model, id, i)));
    }
  }
  return out;
}

std::vector<std::int32_t> tokens_of(const Model& model, std::int64_t count) {
  test::Random random(7);
  const std::int64_t vocabulary = model.parameters[0].shape[0];
  std::vector<std::int32_t> out;
  for (std::int64_t n = 0; n < count; ++n) {
    out.push_back(static_cast<std::int32_t>(random.below(vocabulary)));
  }
  return out;
}

struct Outcome {
  float loss = 0;
  std::map<ParameterId, std::vector<float>> gradients;
};

// One step with a gradient hook: bodies of backward are watched.
Outcome trained(const Model& model, const LanguageModelOptions& options,
                const std::vector<std::int32_t>& tokens) {
  Outcome out;
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  ProcessRuntime& opened = **runtime;
  auto engine = fully_shard(opened, model, {});
  REQUIRE(engine.ok());
  auto language = LanguageModel::create(model, options);
  INFO(language.status().message());
  REQUIRE(language.ok());
  REQUIRE(language->take_workspace(opened).ok());
  language->set_dropout(test::dropout_seed, 0);
  language->set_data([&](Rank, std::int32_t, std::span<std::int32_t> to) {
    std::copy(tokens.begin(), tokens.end(), to.begin());
  });
  REQUIRE((*engine)
              ->initialise([&](ParameterId id, Numel i) { return value_of(model, id, i.value); })
              .ok());
  TrainingOptions training;
  language->apply(training);
  // The gradient of beta1 = 0 is the first moment: after one step with a tiny rate the change of a
  // parameter would only show its sign, so the gradients are read where backward leaves them.
  const auto bodies = training.body;
  training.body = [&](ModuleId module, ModuleWork::Pass pass, std::int32_t micro_batch) {
    auto body = bodies(module, pass, micro_batch);
    if (pass != ModuleWork::Pass::backward) return body;
    return std::function<void(const BodyContext&)>([&, body, module](const BodyContext& context) {
      body(context);
      std::vector<ParameterId> own;
      for (std::size_t p = 0; p < model.parameters.size(); ++p) {
        for (ModuleId m = model.parameters[p].module; m.valid(); m = model.module(m).parent) {
          if (m == module) own.push_back(ParameterId{static_cast<std::int32_t>(p)});
        }
      }
      for (const Tie& tie : model.ties) {
        if (model.module(module).class_name == "Linear") own.push_back(tie.parameter);
      }
      for (std::size_t k = 0; k < own.size(); ++k) {
        const auto g = context.write_as<float>(k);
        out.gradients[own[k]].assign(g.begin(), g.end());
      }
    });
  };
  const Status done = run_training_step(**engine, model, training);
  INFO(done.message());
  REQUIRE(done.ok());
  REQUIRE((*runtime)->finish().ok());
  REQUIRE(language->losses(0).size() == 1);
  out.loss = language->losses(0)[0];
  return out;
}

}  // namespace

TEST_CASE("the loss is that of double precision", "[language]") {
  for (const Case& c : cases()) {
    const Model model = c.model();
    const auto tokens = tokens_of(model, c.batch * (c.length + 1));
    const double expected =
        test::reference_loss(model, values_of(model), tokens, c.batch, c.length);
    INFO(c.name);
    const LanguageModelOptions options{.batch = c.batch, .sequence_length = c.length, .threads = 1};
    CHECK(trained(model, options, tokens).loss == Approx(expected).epsilon(2e-6));
    LanguageModelOptions half = options;
    half.dtype = DType::bfloat16;
    CHECK(trained(model, half, tokens).loss == Approx(expected).epsilon(0.03));
    half.dtype = DType::float16;
    CHECK(trained(model, half, tokens).loss == Approx(expected).epsilon(0.004));
  }
}

TEST_CASE("gradients are the slopes of the loss", "[language]") {
  for (const Case& c : cases()) {
    const Model model = c.model();
    const auto tokens = tokens_of(model, c.batch * (c.length + 1));
    const LanguageModelOptions options{.batch = c.batch, .sequence_length = c.length, .threads = 1};
    const Outcome full = trained(model, options, tokens);
    LanguageModelOptions with_half = options;
    with_half.dtype = DType::bfloat16;
    const Outcome half = trained(model, with_half, tokens);
    Values values = values_of(model);
    test::Random random(3);
    for (std::size_t p = 0; p < values.size(); ++p) {
      const ParameterId id{static_cast<std::int32_t>(p)};
      const auto& gradient = full.gradients.at(id);
      float largest = 0;
      for (float g : gradient) largest = std::max(largest, std::abs(g));
      for (int k = 0; k < 3; ++k) {
        const auto i =
            static_cast<std::size_t>(random.below(static_cast<std::int64_t>(values[p].size())));
        const double before = values[p][i];
        double loss[2];
        for (int side = 0; side < 2; ++side) {
          values[p][i] = before + (side == 0 ? -1e-4 : 1e-4);
          loss[side] = test::reference_loss(model, values, tokens, c.batch, c.length);
        }
        values[p][i] = before;
        const double slope = (loss[1] - loss[0]) / 2e-4;
        INFO(c.name << ": " << model.parameter(id).name << "[" << i << "]");
        CHECK(gradient[i] == Approx(slope).epsilon(1e-4).margin(2e-6 + 1e-4 * largest));
        // Rounding takes numbers across the corner of a ReLU.
        if (model.mathematics.activation == Activation::relu) continue;
        CHECK(half.gradients.at(id)[i] == Approx(slope).epsilon(0.1).margin(0.1 * largest + 1e-5));
      }
    }
  }
}

namespace {

// A model's values, as a decoder takes them.
struct Held {
  Values values;
  std::vector<std::vector<float>> floats;
  std::vector<std::span<const float>> parameters;

  explicit Held(const Model& model) : values(values_of(model)) {
    for (const auto& v : values) floats.emplace_back(v.begin(), v.end());
    for (const auto& v : floats) parameters.emplace_back(v);
  }
};

std::size_t likeliest(const std::vector<float>& logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

TEST_CASE("a decoder's logits are those of double precision, however it gets the tokens",
          "[language]") {
  for (const Case& c : cases()) {
    const Model model = c.model();
    const Held held(model);
    for (const int threads : {1, 2}) {
      auto decoder = Decoder::create(model, held.parameters, {.context = 70, .threads = threads});
      INFO(c.name << ": " << decoder.status().message());
      REQUIRE(decoder.ok());
      const Bytes memory = decoder->memory();
      const auto tokens = tokens_of(model, 70);
      for (const std::vector<std::int64_t>& parts : std::vector<std::vector<std::int64_t>>{
               {1}, {5}, {70}, {66, 1, 3}, {1, 1, 1, 20, 1, 46}}) {
        decoder->forget();
        std::int64_t taken = 0;
        for (const std::int64_t count : parts) {
          const auto logits = decoder->take(std::span(tokens).subspan(
              static_cast<std::size_t>(taken), static_cast<std::size_t>(count)));
          taken += count;
          INFO(count << " of " << taken << " tokens: " << logits.status().message());
          REQUIRE(logits.ok());
          CHECK(decoder->taken() == taken);
          const auto expected =
              test::reference_logits(model, held.values, {tokens.begin(), tokens.begin() + taken});
          REQUIRE(logits->size() == expected.size());
          for (std::size_t k = 0; k < expected.size(); ++k) {
            CHECK((*logits)[k] == Approx(expected[k]).epsilon(1e-4).margin(1e-4));
          }
        }
      }
      CHECK(decoder->memory() == memory);
    }
  }
}

TEST_CASE("what a decoder keeps does not change what it expects", "[language]") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const Model model = c.model();
    const Held held(model);
    auto keeps = Decoder::create(model, held.parameters, {.context = 40, .threads = 1});
    auto forgets = Decoder::create(model, held.parameters, {.context = 40, .threads = 1});
    REQUIRE((keeps.ok() && forgets.ok()));
    std::vector<std::int32_t> tokens = tokens_of(model, 3);
    auto logits = keeps->take(tokens);
    while (tokens.size() < 40) {
      REQUIRE(logits.ok());
      forgets->forget();
      const auto again = forgets->take(tokens);
      REQUIRE(again.ok());
      CHECK(likeliest(*again) == likeliest(*logits));
      tokens.push_back(static_cast<std::int32_t>(likeliest(*logits)));
      logits = keeps->take(std::span(tokens).last(1));
    }
    CHECK(logits.ok());
    CHECK(keeps->take(std::span(tokens).last(1)).status().message() ==
          "1 tokens after 40 are more than the context of 40: forget some");
  }
}

TEST_CASE("a decoder refuses what is no text of its model", "[language]") {
  const Model model = test::small_gpt2();
  Held held(model);
  auto decoder = Decoder::create(model, held.parameters, {.threads = 1});
  REQUIRE(decoder.ok());
  CHECK(decoder->context() == 80);
  CHECK(decoder->take({}).status().message() == "a decoder takes at least one token");
  const std::int32_t none[] = {1, 100000};
  CHECK(decoder->take(none).status().message().find("token 100000 is none of the") == 0);
  CHECK(decoder->taken() == 0);
  CHECK(Decoder::create(model, held.parameters, {.context = 81})
            .status()
            .message()
            .find("a context of 81 tokens: ") == 0);
  held.parameters.pop_back();
  CHECK(Decoder::create(model, held.parameters, {}).status().message().find("given are 0") !=
        std::string::npos);
}

}  // namespace tessera
