// SPDX-License-Identifier: Apache-2.0
// The configuration classes of transformers, as tests/golden/default_configs.json records them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::test {

using Json = nlohmann::json;

// With few layers, so that many can be read.
inline Json small(Json config) {
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers", "num_layers",
                          "num_decoder_layers", "encoder_layers", "decoder_layers"}) {
    if (config.contains(key) && !config.contains("depths")) config[key] = 2;
  }
  for (const char* key :
       {"layer_types", "mlp_layer_types", "no_rope_layers", "moe_layers", "full_attn_idxs",
        "indexer_types", "layers_block_type", "per_layer_config", "cross_attention_layers"}) {
    config.erase(key);  // a list with an entry per layer
  }
  // Classes that cannot be built by their defaults: no width by heads, no number of experts.
  const Json type = config["model_type"];
  if (type == "glm4_moe" || type == "glm4v_moe_text") config["head_dim"] = 128;
  if (type == "dots1")
    config["n_routed_experts"] = config["n_shared_experts"] = config["num_experts_per_tok"] = 4;
  if (type == "esm") config["vocab_size"] = 33;
  if (config.contains("attention_types")) {
    config["attention_types"] = Json::parse(R"([[["global", "local"], 1]])");
    config["attention_layers"] = Json::parse(R"(["global", "local"])");
  }
  return config;
}

inline Json recorded_defaults() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/default_configs.json");
  return Json::parse(file);
}

inline std::vector<Json> default_configs() { return recorded_defaults()["configs"]; }

}  // namespace tessera::test
