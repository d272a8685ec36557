// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/trained_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/architectures/config_keys.h"

namespace tessera {
namespace {

void refuse(Model& out, std::string why) { out.mathematics.refused.push_back(std::move(why)); }

// Windows by block, as the blueprint has them.
void take_windows(JsonReader& config, const Blueprint& b, Model& out) {
  for (const std::int64_t width : b.windows) {
    out.sliding_window = std::max(out.sliding_window, width);
    out.mathematics.full_attention.push_back(width == 0);
  }
  if (!config.has("layer_types")) return;
  for (const nlohmann::json& type : config.json()["layer_types"]) {
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention") {
      return refuse(out,
                    "layer_types has other attention than full_attention and "
                    "sliding_attention");
    }
    if (sliding && out.sliding_window == 0) {
      return refuse(out, "layer_types has sliding_attention, but sliding_window is not in use");
    }
  }
}

void take_activation(JsonReader& config, const char* key, const char* otherwise, Model& out) {
  const std::string name = config.text(key, otherwise);
  if (const Activation* known = activation_of(name)) out.mathematics.activation = *known;
}

// Where two keys say the activation, classes read the one or the other.
void same_activation(JsonReader& config, const char* read, const char* other, Model& out) {
  if (!config.has(other) || !config.has(read)) return;
  const Activation* a = activation_of(config.text(read));
  const Activation* b = activation_of(config.text(other));
  if (a == nullptr || b == nullptr || *a == *b) return;
  refuse(out, fmt::format("{} and {} differ: leave one of them out", read, other));
}

// 0 and null: none.
double cap_of(JsonReader& config, const char* key, double otherwise) {
  const bool null = config.json().contains(key) && !config.has(key);
  return null ? 0 : config.positive(key, otherwise);
}

void about_one(const Blueprint& b, Model& out) {
  out.mathematics.norms_about_one = true;
  out.mathematics.embedding_scale = std::sqrt(static_cast<double>(b.sizes.hidden));
}

// Of the second and third Gemma.
void computed_gemmas(JsonReader& config, const Blueprint& b, Model& out) {
  Mathematics& m = out.mathematics;
  about_one(b, out);
  m.norm_places = NormPlaces::both;
  m.score_width = config.positive("query_pre_attn_scalar", 256);
  take_activation(config, "hidden_activation", "gelu_pytorch_tanh", out);
  same_activation(config, "hidden_activation", "hidden_act", out);
  take_windows(config, b, out);
  const bool null = config.json().contains("sliding_window") && !config.has("sliding_window");
  if (null) refuse(out, "sliding_window is null, but blocks have windows");
}

// By block, whether positions act.
std::vector<bool> rotated_blocks(JsonReader& config, std::int64_t layers) {
  const std::int64_t every = config.integer("no_rope_layer_interval", 1, 4);
  std::vector<bool> rotated;
  if (!config.status().ok()) return rotated;  // of the number of layers, too
  for (std::int64_t k = 0; k < layers; ++k) rotated.push_back((k + 1) % every != 0);
  if (!config.has("no_rope_layers")) return rotated;
  const nlohmann::json& list = config.json()["no_rope_layers"];
  if (!list.is_array() || list.size() < rotated.size()) {
    config.fail("no_rope_layers", fmt::format("must be a list of at least {} numbers", layers));
    return rotated;
  }
  for (std::size_t k = 0; k < rotated.size(); ++k) {
    if (!list[k].is_number_integer()) config.fail("no_rope_layers", "must be a list of 0 and 1");
    rotated[k] = list[k] != 0;
  }
  return rotated;
}

}  // namespace

void computed_qwen3(JsonReader& config, const Blueprint& b, Model& out) {
  take_windows(config, b, out);
}

void read_smollm3(JsonReader& config, Blueprint& b) {
  const std::vector<bool> rotated = rotated_blocks(config, b.sizes.layers);
  const bool on = config.boolean("use_sliding_window", false) && config.has("sliding_window");
  const std::int64_t width = on ? config.integer("sliding_window", 1) : 0;
  for (std::size_t k = 0; on && k < rotated.size(); ++k)
    b.windows.push_back(rotated[k] ? 0 : width);
  if (!config.has("layer_types")) return;
  const nlohmann::json& types = config.json()["layer_types"];
  if (!types.is_array() || types.size() != rotated.size()) {
    return config.fail("layer_types", fmt::format("must be a list of {} words", rotated.size()));
  }
  for (std::size_t k = 0; k < b.windows.size(); ++k) {
    b.windows[k] = types[k] == "sliding_attention" ? width : 0;
  }
}

void computed_smollm3(JsonReader& config, const Blueprint& b, Model& out) {
  for (const bool rotated : rotated_blocks(config, b.sizes.layers)) {
    out.mathematics.unrotated.push_back(!rotated);
  }
  take_windows(config, b, out);
}

void computed_olmo2(JsonReader&, const Blueprint&, Model& out) {
  out.mathematics.norm_places = NormPlaces::behind;
  out.mathematics.wide_head_norms = true;
}

// transformers takes yarn of Phi-3 for longrope.
void computed_phi3(JsonReader& config, const Blueprint& b, Model& out) {
  if (out.rotary.stretch != RotaryStretch::none) {
    refuse(out, "rope_parameters.rope_type is not default, which alone is computed for phi3");
  }
  if (config.has("layer_types")) refuse(out, "layer_types is given, which phi3 does not have");
  take_windows(config, b, out);
}

// Its class takes "gelu" for the approximation by tanh.
void computed_gemma(JsonReader& config, const Blueprint& b, Model& out) {
  about_one(b, out);
  take_activation(config, "hidden_act", "gelu_pytorch_tanh", out);
  if (out.mathematics.activation == Activation::gelu) {
    out.mathematics.activation = Activation::gelu_tanh;
    if (config.text("hidden_activation", "") == "gelu") {
      refuse(out, "hidden_activation is gelu, computed is gelu_pytorch_tanh");
    }
    return;
  }
  same_activation(config, "hidden_act", "hidden_activation", out);
}

void computed_gemma2(JsonReader& config, const Blueprint& b, Model& out) {
  computed_gemmas(config, b, out);
  out.mathematics.logit_cap = cap_of(config, "final_logit_softcapping", 30);
  out.mathematics.score_cap = cap_of(config, "attn_logit_softcapping", 50);
}

void computed_gemma3(JsonReader& config, const Blueprint& b, Model& out) {
  computed_gemmas(config, b, out);
  if (config.has("final_logit_softcapping")) {
    out.mathematics.logit_cap = config.positive("final_logit_softcapping", 30);
  }
  out.mathematics.window_rotary =
      read_window_rotary(config, 10000, b.sizes.positions, out.mathematics.refused);
}

void computed_neox(JsonReader& config, const Blueprint&, Model& out) {
  out.mathematics.parallel = config.boolean("use_parallel_residual", true);
  out.mathematics.heads_interleaved = true;
  take_activation(config, "hidden_act", "gelu", out);
}

}  // namespace tessera
