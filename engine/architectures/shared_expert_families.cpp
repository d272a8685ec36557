// SPDX-License-Identifier: Apache-2.0
// Decoders whose experts are named, stacked or routed as in no other family: HunYuan's, Trinity's
// (AFMoE), Aria's and DBRX's.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"
#include "engine/architectures/nested_keys.h"

namespace tessera {
namespace {

// A number, or the same for each block.
std::int64_t same_for_all(JsonReader& config, const char* key, std::int64_t layers,
                          std::int64_t otherwise) {
  if (!config.has(key) || !config.json()[key].is_array()) return config.integer(key, 1, otherwise);
  const nlohmann::json& list = config.json()[key];
  const bool same = list.size() == static_cast<std::size_t>(layers) &&
                    std::all_of(list.begin(), list.end(), [&](const nlohmann::json& each) {
                      return each.is_number_unsigned() && each == list[0] && each != 0;
                    });
  if (same) return list[0].get<std::int64_t>();
  config.fail(key, fmt::format("must be a number, or {} times the same", layers));
  return otherwise;
}

void read_hunyuan_moe(JsonReader& config, Blueprint& b) {
  const char* const used = config.has("moe_topk") ? "moe_topk" : "num_experts_per_tok";
  b.experts.per_token = same_for_all(config, used, b.sizes.layers, 1);
  b.experts.count = integer_of(config, "num_experts|num_local_experts", 1, 1);
  check_expert_counts(config, b, "num_experts", used);
  b.experts.inner = b.experts.shared = b.mlp.inner;
}

void read_afmoe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "num_shared_experts", 2);
  const std::int64_t dense = config.integer("num_dense_layers", 0, 1);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back(k < dense);
  b.scaled_input = config.boolean("mup_enabled", false);
}

void read_aria(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "moe_num_experts", "moe_topk");
  b.experts.inner = b.mlp.inner;
  read_shared_experts(config, b, "moe_num_shared_experts", 2);
  b.experts.shared_bias = !b.mlp.biases.empty();
}

void read_dbrx(JsonReader& config, Blueprint& b) {
  if (b.tied) config.fail("tie_word_embeddings", "is true, but this class never ties its head");
  JsonReader attention =
      nested_keys(config, "attn_config", {"attn_pdrop", "clip_qkv", "kv_n_heads", "rope_theta"});
  b.attention.key_value_heads = attention.integer("kv_n_heads", 1, 1);
  if (attention.status().ok() && b.sizes.heads % b.attention.key_value_heads != 0) {
    attention.fail("kv_n_heads", fmt::format("{} does not divide n_heads {}",
                                             b.attention.key_value_heads, b.sizes.heads));
  }
  b.attention.clamped = attention.has("clip_qkv");
  const std::int64_t shared = b.attention.key_value_heads;
  if (config.integer("num_key_value_heads", 1, shared) != shared) {
    config.fail("num_key_value_heads", "is not attn_config.kv_n_heads, which decides");
  }
  JsonReader experts =
      nested_keys(config, "ffn_config",
                  {"ffn_act_fn", "ffn_hidden_size", "hidden_size", "moe_jitter_eps",
                   "moe_loss_weight", "moe_normalize_expert_weights", "moe_num_experts",
                   "moe_top_k", "uniform_expert_assignment"});
  b.experts.inner = experts.integer("ffn_hidden_size", 1, 3584);
  read_expert_counts(experts, b, "moe_num_experts", "moe_top_k");
  config.adopt(attention);
  config.adopt(experts);
}

std::vector<Family> beside_an_mlp() {
  Blueprint hunyuan{.prefix = "HunYuanMoEV1",
                    .sizes = {.vocabulary = 290943},
                    .attention = {.weights = "q_proj:q k_proj:k v_proj:v o_proj:o "
                                             "query_layernorm:qn key_layernorm:kn"},
                    .experts = {.class_name = "Moe",
                                .order = "router experts shared",
                                .router = "wg",
                                .router_module = "gate",
                                .shared_name = "shared_mlp",
                                .count = 1,
                                .per_token = 1},
                    .epsilon = 1e-5};
  Blueprint afmoe{
      .prefix = "Afmoe",
      .sizes = {.vocabulary = 200192,
                .hidden = 2048,
                .inner = 6144,
                .heads = 16,
                .head_dim = 128,
                .positions = 16384},
      .registered =
          "self_attn input_layernorm post_attention_layernorm pre_mlp_layernorm "
          "post_mlp_layernorm mlp",
      .runs =
          "input_layernorm self_attn post_attention_layernorm pre_mlp_layernorm mlp "
          "post_mlp_layernorm",
      .attention = {.weights = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn "
                               "gate_proj:g"},
      .experts = {.order = "frozen:expert_bias router shared experts",
                  .router = "gate",
                  .router_module = "router",
                  .shared_name = "shared_experts",
                  .count = 64,
                  .per_token = 6,
                  .inner = 1408},
      .epsilon = 1e-5};
  Blueprint aria{.prefix = "AriaText",
                 .sizes = {.inner = 4096},
                 .experts = {.class_name = "MoELayer",
                             .order = "router experts shared",
                             .router = "router",
                             .shared_name = "shared_experts",
                             .count = 8,
                             .per_token = 2,
                             .fused = true,
                             .transposed = true}};
  return {{.model_type = "hunyuan_v1_moe",
           .blueprint = hunyuan,
           .attention_bias = "q k v o",
           .read = read_hunyuan_moe},
          {.model_type = "afmoe",
           .blueprint = afmoe,
           .attention_bias = "q k v o",
           .windows = {WindowStyle::pattern, 1024, 4, "global_attn_every_n_layers"},
           .read = read_afmoe},
          {.model_type = "aria_text",
           .blueprint = aria,
           .attention_bias = "q k v o",
           .mlp_bias = true,
           .read = read_aria}};
}

std::vector<Family> stacked() {
  Blueprint dbrx{.prefix = "Dbrx",
                 .keys = {.hidden = "d_model|hidden_size",
                          .inner = "",
                          .layers = "n_layers|num_hidden_layers",
                          .heads = "n_heads|num_attention_heads",
                          .key_value_heads = "",
                          .head_dim = "",
                          .positions = "max_seq_len|max_position_embeddings",
                          .epsilon = ""},
                 .sizes = {.hidden = 2048, .layers = 24, .heads = 16},
                 .dot = "transformer",
                 .embedding = "wte",
                 .layers = "blocks",
                 .final_norm = "norm_f",
                 .block_class = "Block",
                 .registered =
                     "norm_attn_norm.norm_1 norm_attn_norm.attn norm_attn_norm.norm_2 "
                     "ffn",
                 .attention = {.name = "norm_attn_norm.attn", .weights = "Wqkv:qkv out_proj:o"},
                 .experts = {.name = "ffn",
                             .class_name = "FFN",
                             .router = "layer",
                             .router_module = "router",
                             .weights = "w1:g v1:u w2:d",
                             .count = 4,
                             .per_token = 1,
                             .stacked = "mlp"},
                 .norm = NormKind::layer_bare,
                 .epsilon = 1e-5};
  dbrx.runs = dbrx.registered;
  return {{.model_type = "dbrx", .blueprint = dbrx, .read = read_dbrx}};
}

}  // namespace

const std::vector<Family>& shared_expert_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = beside_an_mlp();
    for (Family& row : stacked()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

}  // namespace tessera
