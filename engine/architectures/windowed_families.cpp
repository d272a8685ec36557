// SPDX-License-Identifier: Apache-2.0
// Decoders of which most blocks attend to a window, and whose windows the file lists block by
// block.
#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

const char* const with_sinks = "sinks:s q_proj:q k_proj:k v_proj:v o_proj:o";
const char* const all = "q k v o";

void read_granite_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  read_shared_granite(config, b, 0);
}

// Experts that all tokens meet are as wide as the row says, unless the file does.
void read_narrow_experts(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  b.experts.shared = config.integer("shared_expert_intermediate_size", 1, b.experts.shared);
}

void read_flint(JsonReader& config, Blueprint& b) {
  read_narrow_experts(config, b);
  read_sparse_step(config, b);
  for (std::size_t k = 0; k < b.dense_blocks.size() && !config.has("mlp_only_layers"); ++k) {
    b.dense_blocks[k] = b.dense_blocks[k] || k < 2;
  }
}

std::vector<Family> of_granite() {
  Blueprint dense{.prefix = "GraniteSWA",
                  .sizes = {.vocabulary = 100352,
                            .hidden = 2560,
                            .inner = 8192,
                            .layers = 24,
                            .heads = 20,
                            .key_value_heads = 4,
                            .positions = 8192},
                  .attention = {.weights = with_sinks},
                  .epsilon = 1e-5,
                  .tied = true,
                  .scaled_input = true};
  Blueprint routed{.prefix = "GraniteMoeSWA",
                   .attention = {.weights = with_sinks},
                   .experts = {.name = "block_sparse_moe",
                               .class_name = "MoE",
                               .router = "router",
                               .count = 8,
                               .per_token = 2,
                               .fused = true},
                   .scaled_input = true};
  const WindowDefaults windows{WindowStyle::first, 128, 4};
  return {{.model_type = "granite_swa",
           .blueprint = dense,
           .attention_bias = all,
           .mlp_bias = true,
           .windows = windows},
          {.model_type = "granitemoe_swa",
           .blueprint = routed,
           .attention_bias = all,
           .windows = windows,
           .read = read_granite_moe}};
}

std::vector<Family> others() {
  Blueprint cwm{.prefix = "Cwm",
                .sizes = {.vocabulary = 128256,
                          .hidden = 6144,
                          .inner = 21504,
                          .layers = 64,
                          .heads = 48,
                          .key_value_heads = 8,
                          .head_dim = 128,
                          .positions = 131072},
                .epsilon = 1e-5};
  Blueprint flint{.prefix = "Flint",
                  .sizes = {.vocabulary = 150144,
                            .hidden = 2048,
                            .inner = 6144,
                            .layers = 49,
                            .heads = 32,
                            .key_value_heads = 4,
                            .head_dim = 128,
                            .positions = 262144},
                  .attention = {.weights = std::string(with_sinks) + " q_norm:qn k_norm:kn"},
                  .experts = {.order = "experts router shared",
                              .count = 256,
                              .per_token = 6,
                              .inner = 512,
                              .shared = 1024}};
  Blueprint kolibri = flint;
  kolibri.prefix = "Kolibri1";
  kolibri.keys.inner = "";
  kolibri.sizes = {.vocabulary = 128000,
                   .hidden = 2560,
                   .layers = 50,
                   .heads = 48,
                   .key_value_heads = 4,
                   .head_dim = 128,
                   .positions = 262144};
  kolibri.attention.weights = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";
  kolibri.registered =
      "self_attn mlp input_layernorm post_attention_layernorm "
      "post_self_attn_layernorm post_mlp_layernorm";
  kolibri.runs =
      "input_layernorm self_attn post_self_attn_layernorm post_attention_layernorm mlp "
      "post_mlp_layernorm";
  kolibri.experts.shared_name = "shared_experts";
  kolibri.experts.count = 384;
  kolibri.experts.shared = 512;
  return {{.model_type = "cwm",
           .blueprint = cwm,
           .mlp_bias = true,
           .windows = {WindowStyle::first, 8192, 4}},
          {.model_type = "flint",
           .blueprint = flint,
           .attention_bias = all,
           .windows = {WindowStyle::listed, 513},
           .read = read_flint},
          {.model_type = "kolibri1",
           .blueprint = kolibri,
           .windows = {WindowStyle::pattern, 513, 5},
           .read = read_narrow_experts}};
}

}  // namespace

const std::vector<Family>& windowed_families() {
  static const std::vector<Family> rows = [] {
    std::vector<Family> out = of_granite();
    for (Family& row : others()) out.push_back(std::move(row));
    return out;
  }();
  return rows;
}

}  // namespace tessera
