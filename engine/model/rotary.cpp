// SPDX-License-Identifier: Apache-2.0
// rope_scaling and rope_parameters, as transformers' modeling_rope_utils.py understands them.
#include <fmt/format.h>

#include <array>
#include <map>

#include "engine/model/config_keys.h"

namespace tessera {
namespace {

const std::map<std::string, RotaryStretch, std::less<>>& stretches() {
  static const std::map<std::string, RotaryStretch, std::less<>> all = {
      {"default", RotaryStretch::none},
      {"linear", RotaryStretch::linear},
      {"dynamic", RotaryStretch::dynamic},
      {"yarn", RotaryStretch::yarn},
      {"llama3", RotaryStretch::llama3}};
  return all;
}

constexpr std::array known_keys = {"rope_type",
                                   "type",
                                   "rope_theta",
                                   "factor",
                                   "low_freq_factor",
                                   "high_freq_factor",
                                   "original_max_position_embeddings",
                                   "attention_factor",
                                   "beta_fast",
                                   "beta_slow",
                                   "mscale",
                                   "mscale_all_dim",
                                   "truncate",
                                   "finetuned"};

void refuse_unknown(const nlohmann::json& json, const std::string& key,
                    std::vector<std::string>& refused) {
  for (const auto& [name, value] : json.items()) {
    bool known = value.is_null();
    for (const char* one : known_keys) known = known || name == one;
    const bool whole = name == "partial_rotary_factor" && value.is_number() && value == 1.0;
    if (known || whole) continue;
    refused.push_back(fmt::format("{}.{} is given, but is not computed", key, name));
  }
}

void read_scaling(JsonReader& config, const std::string& key, std::int64_t positions,
                  RotaryEmbedding& rotary, std::vector<std::string>& refused) {
  const nlohmann::json& json = config.json()[key];
  JsonReader scaling(json, config.source());
  const std::string type = scaling.text("rope_type", scaling.text("type", "default"));
  const auto found = stretches().find(type);
  rotary.known = found != stretches().end();
  rotary.theta = scaling.positive("rope_theta", rotary.theta);
  if (!rotary.known) {
    refused.push_back(
        fmt::format("{}.rope_type is {}, computed are: default, linear, dynamic, "
                    "yarn, llama3",
                    key, in_quotes(type)));
    return;
  }
  refuse_unknown(json, key, refused);
  rotary.stretch = found->second;
  if (rotary.stretch == RotaryStretch::none) return;
  const bool llama3 = rotary.stretch == RotaryStretch::llama3;
  rotary.factor = scaling.positive("factor", llama3 ? 8 : 1);
  rotary.original_positions =
      scaling.integer("original_max_position_embeddings", 1, llama3 ? 8192 : positions);
  rotary.low_frequency_factor = scaling.positive("low_freq_factor", 1);
  rotary.high_frequency_factor = scaling.positive("high_freq_factor", 4);
  rotary.beta_fast = scaling.positive("beta_fast", 32);
  rotary.beta_slow = scaling.positive("beta_slow", 1);
  rotary.truncate = scaling.boolean("truncate", true);
  if (scaling.has("attention_factor")) {
    rotary.attention_factor = scaling.positive("attention_factor", 1);
  }
  if (scaling.has("mscale") && scaling.has("mscale_all_dim")) {
    rotary.mscale = scaling.positive("mscale", 1);
    rotary.mscale_all_dim = scaling.positive("mscale_all_dim", 1);
  }
  if (!scaling.status().ok()) config.fail(key, scaling.status().message());
}

}  // namespace

RotaryEmbedding read_rotary(JsonReader& config, double theta, std::int64_t positions,
                            std::vector<std::string>& refused) {
  RotaryEmbedding rotary;
  rotary.theta = config.positive("rope_theta", theta);
  rotary.positions = positions;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    if (!config.json()[key].is_object()) {
      config.fail(key, "must be an object");
      continue;
    }
    read_scaling(config, key, positions, rotary, refused);
  }
  return rotary;
}

}  // namespace tessera
