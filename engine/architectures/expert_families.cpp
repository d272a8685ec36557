// SPDX-License-Identifier: Apache-2.0
// Decoders whose blocks have experts (arXiv 2401.04088).
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

const char* const normed_heads = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";

}  // namespace

void mark_blocks(JsonReader& config, const char* key, bool value, std::vector<bool>& blocks) {
  const nlohmann::json& list = config.json()[key];
  const auto good = [&](const nlohmann::json& entry) {
    return entry.is_number_unsigned() && entry.get<std::uint64_t>() < blocks.size();
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), good)) {
    return config.fail(key, "must be a list of numbers of blocks");
  }
  for (const nlohmann::json& entry : list) blocks[entry.get<std::size_t>()] = value;
}

void read_sparse_step(JsonReader& config, Blueprint& b) {
  const std::int64_t step = config.integer("decoder_sparse_step", 1, 1);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back((k + 1) % step != 0);
  if (!config.has("mlp_only_layers")) return;
  mark_blocks(config, "mlp_only_layers", true, b.dense_blocks);
}

namespace {

void read_mixtral(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  b.experts.inner = b.mlp.inner;
  if (b.experts.fused) b.experts.name = "mlp";
}

void read_olmoe(JsonReader& config, Blueprint& b) {
  require_full_heads(config, b);
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = b.mlp.inner;
}

void read_qwen_moe(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  if (b.experts.fused && b.prefix == "Qwen3Moe") b.experts.order = "experts router";
  read_sparse_step(config, b);
}

void read_qwen2_moe(JsonReader& config, Blueprint& b) {
  read_qwen_moe(config, b);
  b.experts.shared = config.integer("shared_expert_intermediate_size", 1, 5632);
  if (config.boolean("qkv_bias", true)) b.attention.biases = "q k v";
}

void read_gpt_oss(JsonReader& config, Blueprint& b) {
  read_expert_counts(
      config, b, "num_local_experts|num_experts",
      config.has("num_experts_per_tok") ? "num_experts_per_tok" : "experts_per_token");
  b.experts.inner = b.mlp.inner;
}

void read_llama4(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  b.experts.inner = b.experts.shared = b.mlp.inner;
  b.mlp.inner = config.integer("intermediate_size_mlp", 1, 16384);
  config.boolean("use_qk_norm", true);  // without weights
  const std::int64_t step = config.integer("interleave_moe_layer_step", 1, 1);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back((k + 1) % step != 0);
  const nlohmann::json& rotated =
      config.has("no_rope_layers") ? config.json()["no_rope_layers"] : nlohmann::json::array();
  if (!rotated.is_array() || (!rotated.empty() && rotated.size() != b.dense_blocks.size())) {
    config.fail("no_rope_layers", fmt::format("must be a list of {} numbers", b.sizes.layers));
  }
  if (!config.has("moe_layers")) return;
  b.dense_blocks.assign(b.dense_blocks.size(), true);
  mark_blocks(config, "moe_layers", false, b.dense_blocks);
}

std::vector<Family> of_qwen() {
  const Sizes qwen{.vocabulary = 151936,
                   .hidden = 2048,
                   .inner = 6144,
                   .layers = 24,
                   .heads = 32,
                   .key_value_heads = 4,
                   .positions = 32768};
  Sizes qwen2 = qwen;
  qwen2.inner = 5632;
  qwen2.heads = qwen2.key_value_heads = 16;
  return {
      {.model_type = "qwen3_moe",
       .blueprint = {.prefix = "Qwen3Moe",
                     .sizes = qwen,
                     .attention = {.weights = normed_heads},
                     .experts = {.count = 128, .per_token = 8, .inner = 768}},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::chosen, 4096},
       .read = read_qwen_moe},
      {.model_type = "qwen3_vl_moe_text",
       .blueprint = {.prefix = "Qwen3VLMoeText",
                     .sizes = {.vocabulary = 151936,
                               .hidden = 2048,
                               .inner = 5632,
                               .layers = 24,
                               .heads = 16,
                               .key_value_heads = 16,
                               .positions = 128000},
                     .attention = {.weights = normed_heads},
                     .experts = {.count = 60,
                                 .per_token = 4,
                                 .inner = 1408,
                                 .fused = true,
                                 .transposed = true}},
       .attention_bias = "q k v o",
       .read = read_qwen_moe},
      {.model_type = "qwen2_moe",
       .blueprint = {.prefix = "Qwen2Moe",
                     .sizes = qwen2,
                     .experts = {.order = "router experts shared gate",
                                 .count = 60,
                                 .per_token = 4,
                                 .inner = 1408}},
       .windows = {WindowStyle::chosen, 4096},
       .read = read_qwen2_moe},
  };
}

std::vector<Family> of_mixtral_and_olmoe() {
  return {
      {.model_type = "mixtral",
       .blueprint = {.prefix = "Mixtral",
                     .sizes = {.inner = 14336, .key_value_heads = 8, .positions = 131072},
                     .experts = {.name = "block_sparse_moe",
                                 .expert_class = "BlockSparseTop2MLP",
                                 .weights = "w1:g w2:d w3:u",
                                 .count = 8,
                                 .per_token = 2},
                     .epsilon = 1e-5},
       .windows = {WindowStyle::all, 0},
       .read = read_mixtral},
      {.model_type = "olmoe",
       .blueprint = {.prefix = "Olmoe",
                     .sizes = {.vocabulary = 50304,
                               .hidden = 2048,
                               .inner = 2048,
                               .layers = 16,
                               .heads = 16,
                               .positions = 4096},
                     .attention = {.weights = normed_heads, .wide_norms = true},
                     .experts = {.count = 64, .per_token = 8},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .read = read_olmoe},
  };
}

std::vector<Family> of_fused() {
  return {
      {.model_type = "gpt_oss",
       .blueprint = {.prefix = "GptOss",
                     .sizes = {.vocabulary = 201088,
                               .hidden = 2880,
                               .inner = 2880,
                               .layers = 36,
                               .heads = 64,
                               .key_value_heads = 8,
                               .head_dim = 64,
                               .positions = 131072},
                     .attention = {.weights = "sinks:s q_proj:q k_proj:k v_proj:v o_proj:o"},
                     .experts = {.class_name = "MLP",
                                 .router = "router",
                                 .count = 128,
                                 .per_token = 4,
                                 .fused = true,
                                 .transposed = true,
                                 .router_bias = true,
                                 .bias = true},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .biased = true,
       .windows = {WindowStyle::pattern, 128, 2},
       .read = read_gpt_oss},
      {.model_type = "llama4_text",
       .causal = "Llama4ForCausalLM",
       .blueprint = {.prefix = "Llama4Text",
                     .sizes = {.vocabulary = 202048,
                               .hidden = 5120,
                               .inner = 8192,
                               .layers = 48,
                               .heads = 40,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 131072},
                     .registered = "self_attn feed_forward input_layernorm "
                                   "post_attention_layernorm",
                     .runs = "input_layernorm self_attn post_attention_layernorm feed_forward",
                     .mlp = {.name = "feed_forward"},
                     .experts = {.name = "feed_forward",
                                 .class_name = "Moe",
                                 .order = "experts router shared",
                                 .router = "router",
                                 .count = 16,
                                 .per_token = 1,
                                 .fused = true,
                                 .transposed = true},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::chunks, 8192, 4},
       .read = read_llama4},
  };
}

}  // namespace

void read_expert_counts(JsonReader& config, Blueprint& b, const char* count, const char* used) {
  ExpertsPart& e = b.experts;
  e.count = integer_of(config, count, 1, e.count);
  e.per_token = integer_of(config, used, 1, e.per_token);
  const std::string names = count;
  check_expert_counts(config, b, names.substr(0, names.find('|')), used);
}

void check_expert_counts(JsonReader& config, Blueprint& b, const std::string& key,
                         const std::string& used) {
  ExpertsPart& e = b.experts;
  constexpr std::int64_t most = 4096, most_in_all = 1'000'000;
  if (e.count > most || e.count * b.sizes.layers > most_in_all) {
    config.fail(
        key, fmt::format("is {}, more than {} or more than {} in all", e.count, most, most_in_all));
  }
  if (e.per_token > e.count) {
    config.fail(used, fmt::format("{} is more than {} {}", e.per_token, key, e.count));
  }
  e.fused = e.fused || fused_experts(config);
}

void read_layer_kinds(JsonReader& config, Blueprint& b) {
  if (!config.has("mlp_layer_types")) return;
  const nlohmann::json& list = config.json()["mlp_layer_types"];
  const auto layers = static_cast<std::size_t>(b.sizes.layers);
  const bool good = list.is_array() && list.size() == layers &&
                    std::all_of(list.begin(), list.end(), [](const nlohmann::json& word) {
                      return word == "dense" || word == "sparse";
                    });
  if (!good) {
    return config.fail("mlp_layer_types",
                       fmt::format("must be a list of {} words, dense or sparse", layers));
  }
  for (std::size_t k = 0; k < layers; ++k) b.dense_blocks[k] = list[k] == "dense";
}

const std::vector<Family>& expert_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = of_qwen();
    for (auto& more : {of_mixtral_and_olmoe(), of_fused()}) {
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
