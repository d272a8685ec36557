// SPDX-License-Identifier: Apache-2.0
// Decoders with latent attention (DeepSeek-V2, arXiv 2405.04434), with experts and without.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

constexpr LatentSizes deepseek_latent{
    .query = 1536, .key_value = 512, .no_position = 128, .rotary = 64, .value = 128};
constexpr const char* latent_bias = "qa kva o";

void read_latent(JsonReader& config, Blueprint& b) {
  const bool whole = !config.has("q_lora_rank") &&
                     (config.json().contains("q_lora_rank") || b.attention.latent.query == 0);
  LatentSizes& l = b.attention.latent;
  l.query = whole ? 0 : config.integer("q_lora_rank", 1, l.query);
  l.key_value = config.integer("kv_lora_rank", 1, l.key_value);
  l.no_position = config.integer("qk_nope_head_dim", 1, l.no_position);
  l.rotary = config.integer("qk_rope_head_dim", 1, l.rotary);
  l.value = config.integer("v_head_dim", 1, l.value);
  const std::int64_t widest = width_max / b.attention.heads;
  for (const auto& [key, size] : {std::pair{"qk_nope_head_dim", l.no_position},
                                  {"qk_rope_head_dim", l.rotary},
                                  {"v_head_dim", l.value},
                                  {"kv_lora_rank", l.key_value},
                                  {"q_lora_rank", l.query}}) {
    if (size > widest) config.fail(key, fmt::format("is {}, more than {}", size, widest));
  }
  b.attention.weights =
      std::string(whole ? "q_proj:q" : "q_a_proj:qa q_a_layernorm:qan q_b_proj:qb") +
      " kv_a_proj_with_mqa:kva kv_a_layernorm:kvan kv_b_proj:kvb o_proj:o";
}

// As many shared experts as the row says, unless the file does.
void read_routed(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "n_routed_experts|num_experts|num_local_experts",
                     "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  read_shared_experts(config, b, "n_shared_experts", b.experts.shared);
  if (b.experts.shared == 0 && config.boolean("mlp_bias", false)) {
    config.fail("n_shared_experts",
                "is 0, but mlp_bias is true: transformers then builds a bias "
                "without a matrix");
  }
}

void read_deepseek(JsonReader& config, Blueprint& b) {
  read_latent(config, b);
  read_routed(config, b);
  read_first_dense(config, b, b.prefix == "DeepseekV3" ? 3 : 0);
  b.experts.shared_bias = !b.mlp.biases.empty();
  if (config.integer("moe_layer_freq", 1, 1) != 1) {
    config.fail("moe_layer_freq", "must be 1: other steps between experts are not built");
  }
}

void read_glm_lite(JsonReader& config, Blueprint& b) {
  read_latent(config, b);
  b.attention.latent.rotary = integer_of(config, "qk_rope_head_dim|head_dim", 1, 64);
  read_routed(config, b);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back(k == 0);
  read_layer_kinds(config, b);
}

// Values are as wide as hidden / heads, unless the file says otherwise.
void read_minicpm3(JsonReader& config, Blueprint& b) {
  b.attention.latent.value = b.attention.head_dim;
  read_latent(config, b);
}

constexpr const char* indexer =
    "indexer.wq_b:iq indexer.wk:ik indexer.k_norm:ikn indexer.weights_proj:iw";

// Blocks that choose the tokens they attend to, `index_topk` of them.
void read_indexed(JsonReader& config, Blueprint& b) {
  read_latent(config, b);
  read_routed(config, b);
  read_first_dense(config, b, 3);
  read_layer_kinds(config, b);
  LatentSizes& l = b.attention.latent;
  if (l.query == 0)
    return config.fail("q_lora_rank", "must be a number: indexers read such queries");
  constexpr std::int64_t most = 1 << 20;
  l.index_heads = std::min(config.integer("index_n_heads", 1, l.index_heads), most);
  l.index_width = std::min(config.integer("index_head_dim", 1, l.index_width), most);
  b.windows.assign(static_cast<std::size_t>(b.sizes.layers), config.integer("index_topk", 1, 2048));
  b.other_weights = b.attention.weights;
  b.attention.weights += std::string(" ") + indexer;
}

// Blocks without an indexer attend to what one before them has chosen.
void read_glm_indexed(JsonReader& config, Blueprint& b) {
  read_indexed(config, b);
  const auto layers = static_cast<std::size_t>(b.sizes.layers);
  const std::int64_t every = config.integer("index_topk_freq", 1, 1);
  const std::int64_t offset = config.integer("index_skip_topk_offset", 0, 2);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) {
    b.other_attention.push_back(std::max<std::int64_t>(k - offset + 1, 0) % every != 0);
  }
  nlohmann::json list;
  const char* key = config.has("indexer_types") ? "indexer_types" : "index_topk_pattern";
  if (config.has(key)) list = config.json()[key];
  if (list.is_null()) return;
  if (list.is_string()) {
    const auto letters = list.get<std::string>();
    list = nlohmann::json::array();
    for (const char letter : letters) list.push_back(std::string(1, letter));
  }
  if (!list.is_array() || list.size() != layers) {
    return config.fail(key, fmt::format("must name {} blocks, \"full\" or \"shared\"", layers));
  }
  for (std::size_t k = 0; k < layers; ++k) {
    const bool full = list[k] == "full" || list[k] == "F";
    if (!full && list[k] != "shared" && list[k] != "S") {
      return config.fail(fmt::format("{}[{}]", key, k), "must be full or shared");
    }
    b.other_attention[k] = !full;
  }
}

void read_axk1(JsonReader& config, Blueprint& b) {
  read_latent(config, b);
  read_routed(config, b);
  read_first_dense(config, b, 1);
  read_layer_kinds(config, b);
}

const ExpertsPart deepseek_experts{.class_name = "MoE",
                                   .order = "experts router shared",
                                   .shared_name = "shared_experts",
                                   .count = 64,
                                   .per_token = 6,
                                   .inner = 1407,
                                   .shared = 2};

std::vector<Family> with_experts() {
  ExpertsPart v3 = deepseek_experts;
  v3.count = 256;
  v3.per_token = 8;
  v3.inner = 2048;
  v3.shared = 1;
  ExpertsPart lite = deepseek_experts;
  lite.per_token = 4;
  lite.inner = 1536;
  lite.shared = 1;
  return {
      {.model_type = "deepseek_v2",
       .blueprint = {.prefix = "DeepseekV2",
                     .sizes = {.vocabulary = 102400},
                     .attention = {.latent = deepseek_latent},
                     .experts = deepseek_experts},
       .attention_bias = latent_bias,
       .mlp_bias = true,
       .read = read_deepseek},
      {.model_type = "deepseek_v3",
       .other_names = "kimi_k2",
       .blueprint = {.prefix = "DeepseekV3",
                     .sizes = {.vocabulary = 129280,
                               .hidden = 7168,
                               .inner = 18432,
                               .layers = 61,
                               .heads = 128,
                               .positions = 4096},
                     .attention = {.latent = deepseek_latent},
                     .experts = v3},
       .attention_bias = latent_bias,
       .read = read_deepseek},
      {.model_type = "glm4_moe_lite",
       .blueprint = {.prefix = "Glm4MoeLite",
                     .keys = {.head_dim = ""},
                     .sizes = {.vocabulary = 154880,
                               .hidden = 2048,
                               .inner = 10240,
                               .layers = 47,
                               .heads = 20,
                               .head_dim = 256,
                               .positions = 202752},
                     .attention = {.latent = {.query = 768,
                                              .key_value = 512,
                                              .no_position = 192,
                                              .rotary = 64,
                                              .value = 256}},
                     .experts = lite,
                     .epsilon = 1e-5},
       .attention_bias = latent_bias,
       .read = read_glm_lite},
  };
}

std::vector<Family> like_deepseek() {
  LatentSizes indexed = deepseek_latent;
  indexed.index_heads = 64;
  indexed.index_width = 128;
  LatentSizes glm = indexed;
  glm.query = 2048;
  glm.no_position = 192;
  glm.value = 256;
  glm.index_heads = 32;
  ExpertsPart experts = deepseek_experts;
  experts.count = 256;
  experts.per_token = 8;
  experts.inner = 2048;
  experts.shared = 1;
  ExpertsPart fewer = experts;
  fewer.count = 192;
  fewer.order = "experts router shared norm:post_mlp_layernorm";
  ExpertsPart half = experts;
  half.count = 128;
  const Sizes deepseek{.vocabulary = 129280,
                       .hidden = 7168,
                       .inner = 18432,
                       .layers = 61,
                       .heads = 128,
                       .positions = 163840};
  Sizes axk1 = deepseek;
  axk1.vocabulary = 163840;
  axk1.heads = 64;
  LatentSizes whole = deepseek_latent;
  whole.query = 0;
  return {{.model_type = "deepseek_v32",
           .blueprint = {.prefix = "DeepseekV32",
                         .sizes = deepseek,
                         .attention = {.latent = indexed},
                         .experts = experts},
           .attention_bias = latent_bias,
           .read = read_indexed},
          {.model_type = "glm_moe_dsa",
           .blueprint = {.prefix = "GlmMoeDsa",
                         .sizes = {.vocabulary = 154880,
                                   .hidden = 6144,
                                   .inner = 12288,
                                   .layers = 78,
                                   .heads = 64,
                                   .positions = 202752},
                         .attention = {.latent = glm},
                         .experts = experts,
                         .epsilon = 1e-5},
           .attention_bias = latent_bias,
           .read = read_glm_indexed},
          {.model_type = "axk1",
           .blueprint = {.prefix = "AXK1",
                         .sizes = axk1,
                         .attention = {.latent = deepseek_latent},
                         .experts = fewer},
           .attention_bias = latent_bias,
           .read = read_axk1},
          {.model_type = "sarvam_mla",
           .causal = "SarvamMLAForCausalLM",
           .blueprint =
               {.prefix = "DeepseekV3",
                .sizes = {.vocabulary = 262144, .inner = 16384, .heads = 64, .positions = 4096},
                .attention = {.latent = whole},
                .experts = half},
           .attention_bias = latent_bias,
           .read = read_axk1}};
}

std::vector<Family> without_experts() {
  return {
      {.model_type = "youtu",
       .blueprint = {.prefix = "Youtu",
                     .keys = {.head_dim = ""},
                     .sizes = {.vocabulary = 128256,
                               .hidden = 2048,
                               .inner = 6144,
                               .heads = 16,
                               .head_dim = 192,
                               .positions = 131072},
                     .attention = {.latent = deepseek_latent},
                     .tied = true},
       .attention_bias = latent_bias,
       .read = read_latent},
      {.model_type = "minicpm3",
       .blueprint = {.prefix = "MiniCPM3",
                     .keys = {.head_dim = ""},
                     .sizes = {.vocabulary = 73448,
                               .hidden = 2560,
                               .inner = 6400,
                               .layers = 62,
                               .heads = 40,
                               .positions = 32768},
                     .attention = {.latent = {.query = 768,
                                              .key_value = 256,
                                              .no_position = 64,
                                              .rotary = 32,
                                              .value = 64}},
                     .epsilon = 1e-5,
                     .tied = true,
                     .scaled_input = true},
       .attention_bias = latent_bias,
       .mlp_bias = true,
       .read = read_minicpm3},
  };
}

}  // namespace

const std::vector<Family>& latent_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_experts();
    for (auto* more : {like_deepseek, without_experts}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
