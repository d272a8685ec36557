// SPDX-License-Identifier: Apache-2.0
// rope_scaling and rope_parameters, as transformers' modeling_rope_utils.py understands them.
#include <fmt/format.h>

#include <array>
#include <map>

#include "engine/architectures/config_keys.h"

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
                                   "finetuned",
                                   "partial_rotary_factor"};

void refuse_unknown(const nlohmann::json& json, const std::string& key,
                    std::vector<std::string>& refused) {
  for (const auto& [name, value] : json.items()) {
    bool known = value.is_null();
    for (const char* one : known_keys) known = known || name == one;
    if (known) continue;
    refused.push_back(fmt::format("{}.{} is given, but is not computed", key, name));
  }
}

// Only some classes rotate a part of each head.
void read_share(JsonReader& from, const std::string& where, bool partial, RotaryEmbedding& rotary,
                std::vector<std::string>& refused) {
  rotary.share = from.positive("partial_rotary_factor", rotary.share);
  if (rotary.share > 1) from.fail("partial_rotary_factor", "must be at most 1");
  if (partial || rotary.share == 1) return;
  refused.push_back(where + "partial_rotary_factor is not 1, computed are: 1");
}

void read_scaling(JsonReader& config, const std::string& key, const nlohmann::json& json,
                  bool partial, RotaryEmbedding& rotary, std::vector<std::string>& refused) {
  const std::int64_t positions = rotary.positions;
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
  read_share(scaling, key + ".", partial, rotary, refused);
  rotary.stretch = found->second;
  const bool stretches = rotary.stretch != RotaryStretch::none;
  if (!stretches && !scaling.status().ok()) config.fail(key, scaling.status().message());
  if (!stretches) return;
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

// Parameters by the kind of attention, as Gemma 3 has them.
bool by_kind(const nlohmann::json& json) {
  return json.contains("full_attention") || json.contains("sliding_attention");
}

// The same under either spelling, without its base, which older files have elsewhere.
nlohmann::json in_one_spelling(nlohmann::json scaling) {
  if (!scaling.contains("rope_type") && scaling.contains("type")) {
    scaling["rope_type"] = scaling["type"];
  }
  scaling.erase("type");
  scaling.erase("rope_theta");
  return scaling;
}

// transformers takes the first of them then, other programs the second.
void refuse_two(const JsonReader& config, std::vector<std::string>& refused) {
  if (!config.has("rope_scaling") || !config.has("rope_parameters")) return;
  const nlohmann::json& one = config.json()["rope_scaling"];
  const nlohmann::json& other = config.json()["rope_parameters"];
  if (!one.is_object() || !other.is_object()) return;
  const bool bases = one.contains("rope_theta") && other.contains("rope_theta");
  if (in_one_spelling(one) == in_one_spelling(other) &&
      (!bases || one["rope_theta"] == other["rope_theta"])) {
    return;
  }
  refused.push_back("rope_scaling and rope_parameters are both given and differ: leave one out");
}

constexpr std::string_view rotates_partly = "phi3 gpt_neox";

}  // namespace

RotaryEmbedding read_rotary(JsonReader& config, std::string_view model_type, double theta,
                            std::int64_t positions, std::vector<std::string>& refused) {
  const bool partial = rotates_partly.find(model_type) != std::string_view::npos;
  const bool neox = model_type == "gpt_neox";
  RotaryEmbedding rotary;
  rotary.theta = config.positive("rope_theta", theta);
  rotary.positions = positions;
  if (neox) {
    rotary.theta = config.positive("rotary_emb_base", rotary.theta);
    rotary.share = config.positive("rotary_pct", 0.25);
  }
  read_share(config, "", partial, rotary, refused);
  refuse_two(config, refused);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const nlohmann::json& json = config.json()[key];
    if (!json.is_object()) {
      config.fail(key, "must be an object");
      continue;
    }
    if (!by_kind(json)) {
      read_scaling(config, key, json, partial, rotary, refused);
    } else if (model_type != "gemma3_text") {
      refused.push_back(fmt::format("{} differ by the kind of attention", key));
    } else if (json.contains("full_attention") && json["full_attention"].is_object()) {
      read_scaling(config, std::string(key) + ".full_attention", json["full_attention"], partial,
                   rotary, refused);
    }
  }
  return rotary;
}

RotaryEmbedding read_window_rotary(JsonReader& config, double theta, std::int64_t positions,
                                   std::vector<std::string>& refused) {
  RotaryEmbedding rotary;
  rotary.theta = config.positive("rope_local_base_freq", theta);
  rotary.positions = positions;
  if (!config.has("rope_parameters")) return rotary;
  const nlohmann::json& json = config.json()["rope_parameters"];
  if (!json.is_object() || !json.contains("sliding_attention")) return rotary;
  if (!json["sliding_attention"].is_object()) return rotary;
  read_scaling(config, "rope_parameters.sliding_attention", json["sliding_attention"], false,
               rotary, refused);
  return rotary;
}

}  // namespace tessera
