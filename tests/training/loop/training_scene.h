// SPDX-License-Identifier: Apache-2.0
// A small language model, a text, and what training it says on any runtime.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tessera/trainer.h"

namespace tessera::test {

inline Model small_gpt() {
  auto model = parse_model(R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 8, "n_embd": 16,
      "n_head": 2, "n_layer": 2, "n_positions": 8, "vocab_size": 40})",
                           "small gpt");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return *model;
}

inline Model small_dropping_gpt() {
  Model model = small_gpt();
  model.mathematics.embedding_dropout = 0.1F;
  model.mathematics.attention_dropout = 0.2F;
  model.mathematics.residual_dropout = 0.3F;
  return model;
}

inline Model small_grouped_llama() {
  auto model = parse_model(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_act": "silu", "max_position_embeddings": 8, "num_key_value_heads": 1,
      "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
      "torch_dtype": "float32", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24,
      "num_attention_heads": 2, "num_hidden_layers": 2})",
                           "small llama");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return *model;
}

// Something to learn: every token says a little about the next one.
inline Corpus small_corpus() {
  std::string text;
  for (int k = 0; k < 500; ++k) text += static_cast<char>((k * k + k / 7) % 40);
  auto corpus = Corpus::from_bytes(text, "text", {.vocabulary = 40});
  REQUIRE(corpus.ok());
  return *corpus;
}

inline TrainerOptions small_options(const Scheme& scheme, std::int32_t accumulation,
                                    std::int64_t steps) {
  TrainerOptions options{.scheme = scheme, .step = {}, .learning_rate = {}};
  options.step.batch = 2;
  options.step.sequence_length = 8;
  options.step.accumulation = accumulation;
  options.step.adam = {.weight_decay = 0.1F};
  options.learning_rate = {
      .schedule = LearningRate::Schedule::cosine, .peak = 0.01F, .warmup = 3, .steps = steps};
  options.dtype = compute_dtype(scheme);
  if (options.dtype == DType::float16) {
    options.loss_scale = {.initial_scale = 0x1p24F, .growth_interval = 4, .min_scale = 1};
  }
  options.data = {{.tokens = {.first = 0, .count = 400}}};
  options.validation =
      ValidationData{.tokens = {{.tokens = {.first = 400, .count = 100}}}, .batches = 5};
  options.seed = 5;
  options.threads = 1;
  return options;
}

// The figures that steps returned.
struct Said {
  std::vector<float> losses;
  std::vector<float> norms;
  std::vector<float> validation;  // after every fifth step
  std::vector<float> scales;      // only float16
  std::vector<bool> skipped;
  friend bool operator==(const Said&, const Said&) = default;
};

inline Status train(Runtime& runtime, const Model& model, const TrainerOptions& options,
                    std::int64_t steps, Said& said, const std::function<Status()>& finish) {
  const Corpus corpus = small_corpus();
  TESSERA_ASSIGN(const auto trainer, Trainer::create(runtime, model, corpus, options));
  while (trainer->steps_done() < steps) {
    TESSERA_ASSIGN(const TrainedStep step, trainer->step());
    said.losses.push_back(step.loss);
    said.norms.push_back(step.skipped ? 0 : step.grad_norm);  // which may be no number
    if (step.loss_scale) said.scales.push_back(*step.loss_scale);
    said.skipped.push_back(step.skipped);
    if (!options.validation || step.step % 5 != 0) continue;
    TESSERA_ASSIGN(const float loss, trainer->validate());
    said.validation.push_back(loss);
  }
  TESSERA_TRY(trainer->finish());
  return finish();
}

}  // namespace tessera::test
