// SPDX-License-Identifier: Apache-2.0
// What a config.json says acts, is refused or is named: no mistake in it passes in silence.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/model.h"
#include "tests/model/default_configs.h"

namespace tessera {
namespace {

using test::default_configs;
using test::Json;
using test::small;

// Whatever a key can change.
std::string fingerprint(const Model& model) {
  double costs[4] = {};
  for (const Module& module : model.modules) {
    costs[0] += module.cost.matmul_flops.at(5000);
    costs[1] += attention_flops(module.cost, 5000);
    costs[2] += module.cost.activation_bytes.at(5000) + module.checkpoint_bytes.at(5000);
    costs[3] += module.cost.elementwise_bytes.at(5000);
  }
  const Mathematics& m = model.mathematics;
  return fmt::format("{} {} {} {} {} | {} {} {} {} {} {} {} {} {} | {}",
                     model.parameter_count().value, costs[0], costs[1], costs[2], costs[3],
                     model.sequence_length_max, model.attention_heads, model.norm_epsilon,
                     model.rotary.theta, model.rotary.factor, model.sliding_window, m.scores_scaled,
                     m.embedding_dropout + 2 * m.attention_dropout + 4 * m.residual_dropout,
                     m.refused.size(), fmt::join(model.warnings, "\n"));
}

// Tokenizers, generation, initial weights: nothing here depends on them.
bool matters(const std::string& key) {
  static const std::set<std::string> others = {"model_type",
                                               "mtp_layer_types",
                                               "mtp_mlp_layer_types",
                                               "max_length",
                                               "sparse_pred_ignore_index",
                                               "use_cache",
                                               "initializer_range",
                                               "is_decoder",
                                               "is_encoder_decoder",
                                               "pretraining_tp",
                                               "summary_type",
                                               "summary_activation",
                                               "summary_use_proj",
                                               "summary_proj_to_labels",
                                               "summary_first_dropout",
                                               "reorder_and_upcast_attn",
                                               "output_router_logits",
                                               "router_aux_loss_coef",
                                               "router_jitter_noise",
                                               "begin_suppress_tokens",
                                               "suppress_tokens",
                                               "id2label",
                                               "label2id"};
  return !others.contains(key) && key.find("token_id") == std::string::npos;
}

// Any word may be one of theirs, and changes nothing here.
const std::set<std::string> free_words = {
    "mamba_ssm_cache_dtype",   "router_dtype",          "second_expert_policy",
    "ctc_loss_reduction",      "init_device",           "norm_type",
    "position_embedding_type", "time_step_init_scheme", "topk_method"};

Json misspelt(const Json& config, const std::string& key) {
  Json out = config;
  out[key.substr(0, key.size() / 2) + key.substr(key.size() / 2 + 1)] = out[key];
  out.erase(key);
  return out;
}

TEST_CASE("no mistake in a published configuration passes in silence", "[model][errors]") {
  int tried = 0;
  for (const Json& full : default_configs()) {
    const Json config = small(full);
    const auto base = parse_model(config.dump(), "config.json");
    INFO(config.dump());
    INFO(base.status().message());
    REQUIRE(base.ok());
    const std::string before = fingerprint(*base);
    auto check = [&](const Json& changed, const std::string& what) {
      ++tried;
      const auto model = parse_model(changed.dump(), "config.json");
      INFO(config["model_type"] << ": " << what);
      if (!model.ok()) {
        CHECK(model.status().code() == Code::invalid_argument);
        CHECK(model.status().message().find('\n') == std::string::npos);
        CHECK(model.status().message().starts_with("config.json"));
      } else {
        CHECK(fingerprint(*model) != before);
      }
    };
    for (const auto& [key, value] : config.items()) {
      if (!matters(key)) continue;
      if (!value.is_null()) check(misspelt(config, key), key + " misspelt");
      for (const char* wrong : {"\"x\"", "-3", "[[]]"}) {
        if (free_words.contains(key) && *wrong == '"') continue;
        Json changed = config;
        changed[key] = Json::parse(wrong);
        check(changed, key + " is " + wrong);
      }
    }
  }
  CHECK(tried > 300);
}

TEST_CASE("keys of published files that no class has are named, and not taken for other keys",
          "[model]") {
  for (const auto& [type, key] : {std::pair{"mpt", "init_config"},
                                  {"deepseek_v3", "auto_map"},
                                  {"gpt_bigcode", "inference_runner"}}) {
    Json config{{"model_type", type}};
    config[key] = 1;
    const auto model = parse_model(config.dump(), "config.json");
    INFO(key << ": " << model.status().message());
    REQUIRE(model.ok());
    REQUIRE(model->warnings.size() == 1);
    CHECK(model->warnings[0].find(key) != std::string::npos);
  }
}

TEST_CASE("the default configuration of every class is read without a warning", "[model]") {
  for (const Json& config : default_configs()) {
    const auto model = parse_model(small(config).dump(), "config.json");
    INFO(config["model_type"]);
    CHECK(model.status().message() == "");
    if (!model.ok()) continue;
    std::vector<std::string> warnings = model->warnings;
    std::erase_if(warnings, [](const std::string& line) {  // which head was taken
      return line.starts_with("architectures is missing");
    });
    CHECK(fmt::format("{}", fmt::join(warnings, "\n")) == "");
  }
}

}  // namespace
}  // namespace tessera
