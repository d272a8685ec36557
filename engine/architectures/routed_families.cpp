// SPDX-License-Identifier: Apache-2.0
// Decoders whose blocks have experts as DeepSeek and Mixtral have them, around other attention.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

const char* const normed_queries = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";

void read_ernie_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "moe_num_experts|num_experts", "moe_k|num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "moe_num_shared_experts", 2);
  const std::int64_t step = config.integer("moe_layer_interval", 1, 1);
  const std::int64_t first = config.integer("moe_layer_start_index", 0, 1);
  const std::int64_t end =
      config.has("moe_layer_end_index") && config.json()["moe_layer_end_index"] == -1
          ? b.sizes.layers - 1
          : config.integer("moe_layer_end_index", 0, b.sizes.layers - 1);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) {
    b.dense_blocks.push_back((k + 1) % step != 0 || k < first || k > end);
  }
  if (config.boolean("use_bias", false)) {
    config.fail("use_bias", "must be false: experts with biases are not built");
  }
}

void read_glm_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "n_routed_experts|num_experts|num_local_experts",
                     "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "n_shared_experts", 1);
  read_first_dense(config, b, 1);
  if (config.boolean("use_qk_norm", false)) b.attention.weights = normed_queries;
}

void read_dots(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "n_routed_experts|num_experts|num_local_experts",
                     "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "n_shared_experts", 0);
  read_first_dense(config, b, 0);
}

// Experts in every block.
void read_solar(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "n_routed_experts|num_experts|num_local_experts",
                     "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "n_shared_experts", 1);
}

void read_mellum(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  b.dense_blocks.assign(static_cast<std::size_t>(b.sizes.layers), false);
  read_layer_kinds(config, b);
  for (const char* key : {"num_mtp_layers", "num_nextn_predict_layers"}) {
    if (config.integer(key, 0, 0) > 1) config.fail(key, "must be 0 or 1");
  }
}

void read_exaone_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "num_shared_experts", 1);
  read_first_dense(config, b, 1);
  read_layer_kinds(config, b);
}

// Those whose experts are as wide as `intermediate_size` says.
void read_plain_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  b.experts.inner = b.mlp.inner;
}

void read_phimoe(JsonReader& config, Blueprint& b) {
  read_plain_moe(config, b);
  b.head_bias = config.boolean("lm_head_bias", false);
  if (!b.experts.fused) return;
  b.experts.name = "mlp";
  b.experts.router = "router";
}

void read_sarvam(JsonReader& config, Blueprint& b) {
  read_glm_moe(config, b);
  if (!config.boolean("use_qk_norm", true)) {
    b.attention.weights = "q_proj:q k_proj:k v_proj:v o_proj:o";
  }
}

void read_hunyuan(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "num_shared_experts", 1);
  b.dense_blocks.assign(static_cast<std::size_t>(b.sizes.layers), false);
  b.dense_blocks[0] = true;
  read_layer_kinds(config, b);
  b.experts.shared_bias = !b.mlp.biases.empty();
}

void read_granite_shared(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  read_shared_granite(config, b, 0);
}

std::vector<Family> with_shared_experts() {
  return {
      {.model_type = "ernie4_5_moe",
       .blueprint = {.prefix = "Ernie4_5_Moe",
                     .sizes = {.vocabulary = 103424,
                               .hidden = 2560,
                               .inner = 12288,
                               .layers = 28,
                               .heads = 20,
                               .key_value_heads = 4,
                               .positions = 131072},
                     .experts = {.order = "router experts shared",
                                 .shared_name = "shared_experts",
                                 .count = 64,
                                 .per_token = 6,
                                 .inner = 1536,
                                 .corrections = "moe_statics"},
                     .epsilon = 1e-5,
                     .tied = true},
       .read = read_ernie_moe},
      {.model_type = "glm4_moe",
       .blueprint = {.prefix = "Glm4Moe",
                     .sizes = {.vocabulary = 151552,
                               .inner = 10944,
                               .layers = 46,
                               .heads = 96,
                               .key_value_heads = 8,
                               .positions = 131072},
                     .experts = {.class_name = "MoE",
                                 .order = "experts router shared",
                                 .shared_name = "shared_experts",
                                 .count = 128,
                                 .per_token = 8,
                                 .inner = 1408},
                     .epsilon = 1e-5},
       .attention_bias = "q k v",
       .read = read_glm_moe},
      {.model_type = "dots1",
       .blueprint = {.prefix = "Dots1",
                     .sizes = {.vocabulary = 152064, .hidden = 4608, .inner = 10944, .layers = 62},
                     .attention = {.weights = normed_queries},
                     .experts = {.class_name = "MoE",
                                 .order = "experts router shared",
                                 .shared_name = "shared_experts",
                                 .count = 128,
                                 .per_token = 6,
                                 .inner = 1408}},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::beyond, 4096, 62},
       .read = read_dots},
  };
}

std::vector<Family> with_own_width() {
  const ExpertsPart experts{.class_name = "MoE",
                            .order = "experts router shared",
                            .shared_name = "shared_experts",
                            .count = 128,
                            .per_token = 8,
                            .inner = 1280};
  ExpertsPart exaone = experts;
  exaone.count = 64;
  exaone.inner = 1024;
  return {
      {.model_type = "solar_open",
       .blueprint = {.prefix = "SolarOpen",
                     .keys = {.inner = ""},
                     .sizes = {.vocabulary = 196608,
                               .layers = 48,
                               .heads = 64,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 131072},
                     .experts = experts,
                     .epsilon = 1e-5},
       .attention_bias = "q k v",
       .read = read_solar},
      {.model_type = "exaone_moe",
       .blueprint = {.prefix = "ExaoneMoe",
                     .sizes = {.vocabulary = 102400, .inner = 16384, .key_value_heads = 32},
                     .attention = {.weights = normed_queries},
                     .experts = exaone,
                     .epsilon = 1e-5},
       .windows = {WindowStyle::pattern, 4096, 4, "sliding_window_pattern"},
       .read = read_exaone_moe},
      {.model_type = "mellum",
       .blueprint =
           {.prefix = "Mellum",
            .sizes = {.vocabulary = 98304,
                      .hidden = 2304,
                      .inner = 7168,
                      .layers = 28,
                      .key_value_heads = 4,
                      .head_dim = 128,
                      .positions = 131072},
            .attention = {.weights = normed_queries},
            .experts = {.order = "experts router", .count = 64, .per_token = 8, .inner = 896}},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::listed, 1024},
       .read = read_mellum},
  };
}

std::vector<Family> with_all_routed() {
  return {
      {.model_type = "granitemoe",
       .blueprint = {.prefix = "GraniteMoe",
                     .registered = "self_attn input_layernorm post_attention_layernorm mlp",
                     .experts = {.name = "block_sparse_moe",
                                 .class_name = "MoE",
                                 .router = "router",
                                 .count = 8,
                                 .per_token = 2,
                                 .fused = true},
                     .scaled_input = true},
       .attention_bias = "q k v o",
       .read = read_plain_moe},
      {.model_type = "granitemoeshared",
       .blueprint = {.prefix = "GraniteMoeShared",
                     .registered = "self_attn input_layernorm post_attention_layernorm mlp",
                     .experts = {.name = "block_sparse_moe",
                                 .class_name = "MoE",
                                 .router = "router",
                                 .count = 8,
                                 .per_token = 2,
                                 .fused = true},
                     .scaled_input = true},
       .attention_bias = "q k v o",
       .read = read_granite_shared},
      {.model_type = "minimax_m2",
       .blueprint = {.prefix = "MiniMaxM2",
                     .sizes = {.vocabulary = 200064,
                               .hidden = 3072,
                               .inner = 1536,
                               .layers = 62,
                               .heads = 48,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 196608},
                     .attention = {.weights = normed_queries, .wide_norms = true},
                     .experts = {.count = 256, .per_token = 8}},
       .read = read_plain_moe},
      {.model_type = "phimoe",
       .other_names = "PhiMoEForCausalLM",
       .blueprint = {.prefix = "Phimoe",
                     .sizes = {.vocabulary = 32064,
                               .inner = 6400,
                               .key_value_heads = 8,
                               .positions = 131072},
                     .experts = {.name = "block_sparse_moe",
                                 .weights = "w1:g w2:d w3:u",
                                 .count = 16,
                                 .per_token = 2},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::all, 0},
       .read = read_phimoe},
      {.model_type = "flex_olmo",
       .blueprint = {.prefix = "FlexOlmo",
                     .sizes = {.vocabulary = 100352, .positions = 4096},
                     .registered = "self_attn mlp post_attention_layernorm "
                                   "post_feedforward_layernorm",
                     .runs = "self_attn post_attention_layernorm mlp post_feedforward_layernorm",
                     .attention = {.weights = normed_queries, .wide_norms = true},
                     .experts = {.count = 7, .per_token = 5}},
       .attention_bias = "q k v o",
       .read = read_plain_moe},
  };
}

// Sarvam's is GLM's, whose queries and keys have norms.
std::vector<Family> like_glm() {
  Blueprint text{.prefix = "Glm4vMoeText",
                 .sizes = {.vocabulary = 151424,
                           .inner = 10944,
                           .layers = 46,
                           .heads = 96,
                           .key_value_heads = 8,
                           .positions = 65536},
                 .experts = {.class_name = "MoE",
                             .order = "experts router shared",
                             .shared_name = "shared_experts",
                             .count = 128,
                             .per_token = 8,
                             .inner = 1408},
                 .epsilon = 1e-5};
  Blueprint sarvam = text;
  sarvam.prefix = "Glm4Moe";
  sarvam.sizes = {.vocabulary = 262144,
                  .inner = 8192,
                  .layers = 19,
                  .heads = 64,
                  .key_value_heads = 4,
                  .head_dim = 64,
                  .positions = 131072};
  sarvam.attention.weights = normed_queries;
  sarvam.experts.per_token = 6;
  sarvam.experts.inner = 1024;
  sarvam.epsilon = 1e-6;
  Blueprint hunyuan = text;
  hunyuan.prefix = "HYV3";
  hunyuan.sizes = {.vocabulary = 120832,
                   .inner = 13312,
                   .layers = 80,
                   .heads = 64,
                   .key_value_heads = 8,
                   .head_dim = 128,
                   .positions = 131072};
  hunyuan.attention.weights = normed_queries;
  hunyuan.experts.order = "router experts shared";
  hunyuan.experts.count = 192;
  hunyuan.experts.inner = 1536;
  return {{.model_type = "glm4v_moe_text",
           .blueprint = text,
           .attention_bias = "q k v",
           .biased = true,
           .read = read_glm_moe},
          {.model_type = "sarvam_moe",
           .causal = "SarvamMoEForCausalLM",
           .blueprint = sarvam,
           .attention_bias = "q k v",
           .read = read_sarvam},
          {.model_type = "hy_v3",
           .blueprint = hunyuan,
           .attention_bias = "q k v o",
           .mlp_bias = true,
           .read = read_hunyuan}};
}

}  // namespace

void read_shared_granite(JsonReader& config, Blueprint& b, std::int64_t otherwise) {
  b.experts.inner = b.mlp.inner;
  const std::int64_t shared = config.integer("shared_intermediate_size", 0, otherwise);
  if (shared == 0) return;
  b.mlp = {.name = "shared_mlp", .weights = "input_linear:gu output_linear:d", .inner = shared};
  b.dense_blocks.assign(static_cast<std::size_t>(b.sizes.layers), true);
  b.registered = "self_attn input_layernorm post_attention_layernorm block_sparse_moe shared_mlp";
  b.runs = "input_layernorm self_attn post_attention_layernorm block_sparse_moe shared_mlp";
}

void read_shared_experts(JsonReader& config, Blueprint& b, const char* key,
                         std::int64_t otherwise) {
  constexpr std::int64_t most = 1000;
  const std::int64_t shared = config.integer(key, 0, otherwise);
  if (shared > most) config.fail(key, fmt::format("is {}, more than {}", shared, most));
  b.experts.shared = std::min(shared, most) * b.experts.inner;
}

void read_first_dense(JsonReader& config, Blueprint& b, std::int64_t otherwise) {
  const std::int64_t dense = config.integer("first_k_dense_replace", 0, otherwise);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back(k < dense);
}

const std::vector<Family>& routed_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_shared_experts();
    for (auto* more : {with_own_width, with_all_routed, like_glm}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
