// SPDX-License-Identifier: Apache-2.0
// Decoders in which most blocks have linear attention (gated delta rule, arXiv 2412.06464) or a
// short convolution in the place of attention.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"
#include "engine/architectures/mixer_keys.h"

namespace tessera {
namespace {

// Each so many blocks attention, or as the list says.
void read_interval(JsonReader& config, Blueprint& b) {
  const std::int64_t interval = config.integer("full_attention_interval", 1, 4);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) {
    b.mixer_blocks.push_back((k + 1) % interval != 0);
  }
  read_mixer_blocks(config, b, "layer_types", "linear_attention", "full_attention");
}

// How queries, keys, values and gates are projected: by two matrices, by four, by six.
enum class DeltaStyle { two, four, six };

struct DeltaSizes {
  std::int64_t keys = 16, values = 32, key_dim = 128, value_dim = 128;
};

// Linear attention by the delta rule.
void read_delta(JsonReader& config, Blueprint& b, DeltaStyle style,
                const DeltaSizes& otherwise = {}) {
  const std::int64_t keys = config.integer("linear_num_key_heads", 1, otherwise.keys);
  const std::int64_t values = config.integer("linear_num_value_heads", 1, otherwise.values);
  const std::int64_t key_dim = config.integer("linear_key_head_dim", 1, otherwise.key_dim);
  const std::int64_t value_dim = config.integer("linear_value_head_dim", 1, otherwise.value_dim);
  const std::int64_t width = config.integer("linear_conv_kernel_dim", 1, 4);
  for (const std::int64_t size : {keys, values, key_dim, value_dim, width}) {
    constexpr std::int64_t most = 1 << 14;
    if (size <= most) continue;
    return config.fail(
        "linear_num_key_heads",
        fmt::format("or another size of linear attention is {}, more than {}", size, most));
  }
  if (values % keys != 0) {
    config.fail("linear_num_value_heads",
                fmt::format("{} is not a multiple of linear_num_key_heads {}", values, keys));
  }
  const std::int64_t hidden = b.sizes.hidden;
  const std::int64_t key = keys * key_dim;
  const std::int64_t value = values * value_dim;
  auto& tensors = b.mixer.tensors;
  tensors = {{"dt_bias", TensorKind::vector, values},
             {"A_log", TensorKind::vector, values},
             {"conv1d", TensorKind::convolution, 2 * key + value, width}};
  if (style == DeltaStyle::two) {
    tensors.push_back({"in_proj_qkvz", TensorKind::linear, 2 * key + 2 * value, hidden});
    tensors.push_back({"in_proj_ba", TensorKind::linear, 2 * values, hidden});
  }
  const bool six = style == DeltaStyle::six;
  for (const auto& [name, rows] : {std::pair{"q_proj", key},
                                   {"k_proj", key},
                                   {"v_proj", value},
                                   {"a_proj", values},
                                   {"b_proj", values},
                                   {"g_proj", value}}) {
    if (six) tensors.push_back({name, TensorKind::linear, rows, hidden});
  }
  tensors.push_back({six ? "o_norm" : "norm", TensorKind::norm, value_dim});
  tensors.push_back({six ? "o_proj" : "out_proj", TensorKind::linear, hidden, value});
  if (style == DeltaStyle::four) {
    tensors.push_back({"in_proj_qkv", TensorKind::linear, 2 * key + value, hidden});
    tensors.push_back({"in_proj_z", TensorKind::linear, value, hidden});
    for (const char* name : {"in_proj_b", "in_proj_a"}) {
      tensors.push_back({name, TensorKind::linear, values, hidden});
    }
  }
  // Tokens that are one matmul; solving the triangles between them is counted by nobody.
  constexpr double chunk = 64;
  const auto k = as_double(key_dim);
  const auto v = as_double(value_dim);
  b.mixer.scan_flops = 2 * as_double(values) * (chunk * (2 * k + v) + 3 * k * v);
  // What is projected and convolved, the chunks' matrices, what attention gives and its norm.
  b.mixer.kept =
      as_double(2 * (2 * key + value) + value + 2 * values + 2 * value) + chunk * as_double(values);
}

void read_qwen_experts(JsonReader& config, Blueprint& b) {
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  b.experts.shared = config.integer("shared_expert_intermediate_size", 1, 512);
}

void read_qwen3_next(JsonReader& config, Blueprint& b) {
  read_delta(config, b, DeltaStyle::two);
  read_interval(config, b);
  read_qwen_experts(config, b);
  read_sparse_step(config, b);
}

void read_qwen3_5(JsonReader& config, Blueprint& b) {
  read_delta(config, b, DeltaStyle::four);
  read_interval(config, b);
}

void read_qwen3_5_moe(JsonReader& config, Blueprint& b) {
  read_qwen3_5(config, b);
  read_qwen_experts(config, b);
}

// Keys are three quarters as wide as the model, values twice as wide as keys.
void read_olmo_hybrid(JsonReader& config, Blueprint& b) {
  const std::int64_t heads = b.sizes.heads;
  const std::int64_t keys =
      std::min(config.integer("linear_num_key_heads", 1, heads), widest_state);
  const auto width = static_cast<std::int64_t>(0.75 * as_double(b.sizes.hidden) / as_double(keys));
  const std::int64_t key_dim = std::min(
      config.integer("linear_key_head_dim", 1, std::max<std::int64_t>(1, width)), widest_state);
  read_delta(config, b, DeltaStyle::six, {keys, heads, key_dim, 2 * key_dim});
  const auto layers = static_cast<std::size_t>(b.sizes.layers);
  for (std::size_t k = 0; k < layers; ++k) b.mixer_blocks.push_back(k % 4 != 3);
  if (layers < 4) b.mixer_blocks.back() = false;
  read_mixer_blocks(config, b, "layer_types", "linear_attention", "full_attention");
}

// Every second block has linear attention in blocks of tokens (arXiv 2501.08313).
void read_minimax(JsonReader& config, Blueprint& b) {
  const std::int64_t heads = b.attention.heads;
  const std::int64_t head_dim = b.attention.head_dim;
  const std::int64_t q = heads * head_dim;
  if (q > widest_state) return config.fail("head_dim", "times the number of heads is too large");
  b.mixer.tensors = {{"norm", TensorKind::norm, q},
                     {"qkv_proj", TensorKind::linear, 3 * q, b.sizes.hidden},
                     {"out_proj", TensorKind::linear, b.sizes.hidden, q},
                     {"output_gate", TensorKind::linear, q, b.sizes.hidden}};
  const auto d = as_double(head_dim);
  const auto tokens = as_double(std::min(config.integer("block_size", 1, 256), widest_state));
  b.mixer.scan_flops = 4 * as_double(heads) * (tokens * d + d * d);
  // What is projected, before and behind its activation; the gate; what attention gives, its norm.
  b.mixer.kept = 9 * as_double(q);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.mixer_blocks.push_back(k % 2 == 1);
  read_mixer_blocks(config, b, "layer_types", "linear_attention", "full_attention");
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
  b.experts.inner = b.mlp.inner;
  if (b.experts.fused) b.experts.name = "mlp";
}

// LFM2: the convolution of a product, times another product.
void read_short(JsonReader& config, Blueprint& b) {
  const std::int64_t hidden = b.sizes.hidden;
  const std::int64_t width = std::min(config.integer("conv_L_cache", 1, 3), widest_state);
  const bool bias = config.boolean("conv_bias", false);
  b.mixer.tensors = {{"conv", TensorKind::convolution, hidden, width, bias},
                     {"in_proj", TensorKind::linear, 3 * hidden, hidden, bias},
                     {"out_proj", TensorKind::linear, hidden, hidden, bias}};
  b.mixer.kept = 6 * as_double(hidden);
  if (config.has("tie_embedding")) b.tied = config.boolean("tie_embedding", true);
  b.mixer_blocks.assign(static_cast<std::size_t>(b.sizes.layers), false);
  if (config.has("full_attn_idxs")) {
    b.mixer_blocks.assign(b.mixer_blocks.size(), true);
    mark_blocks(config, "full_attn_idxs", false, b.mixer_blocks);
  }
  read_mixer_blocks(config, b, "layer_types", "conv", "full_attention");
}

void read_lfm2(JsonReader& config, Blueprint& b) {
  read_short(config, b);
  if (config.has("block_ff_dim")) b.mlp.inner = config.integer("block_ff_dim", 1, b.mlp.inner);
  const std::int64_t multiple = config.integer("block_multiple_of", 1, 256);
  const bool given = config.json().contains("block_ffn_dim_multiplier");
  const bool scales = !given || config.has("block_ffn_dim_multiplier");
  const double factor = scales ? config.positive("block_ffn_dim_multiplier", 1) : 1;
  if (!config.boolean("block_auto_adjust_ff_dim", true)) return;
  if (b.mlp.inner > widest_state || multiple > widest_state || factor > 1024) {
    return config.fail("intermediate_size", "is too large to be adjusted");
  }
  const auto third = as_double(2 * b.mlp.inner / 3);
  const auto inner = std::max<std::int64_t>(1, static_cast<std::int64_t>(factor * third));
  b.mlp.inner = (inner + multiple - 1) / multiple * multiple;
}

void read_lfm2_moe(JsonReader& config, Blueprint& b) {
  read_short(config, b);
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  const std::int64_t dense = config.integer("num_dense_layers", 0, 2);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) b.dense_blocks.push_back(k < dense);
}

std::vector<Family> with_delta_rule() {
  Blueprint next{.prefix = "Qwen3Next",
                 .sizes = {.vocabulary = 151936,
                           .hidden = 2048,
                           .inner = 5632,
                           .layers = 48,
                           .heads = 16,
                           .key_value_heads = 2,
                           .head_dim = 256,
                           .positions = 32768},
                 .attention = {.weights = "q_proj:qg k_proj:k v_proj:v o_proj:o q_norm:qn "
                                          "k_norm:kn"},
                 .experts = {.order = "router experts shared gate",
                             .count = 512,
                             .per_token = 10,
                             .inner = 512},
                 .mixer = {.name = "linear_attn", .class_name = "GatedDeltaNet"}};
  Blueprint dense = next;
  dense.prefix = "Qwen3_5";
  dense.sizes = {.vocabulary = 248320,
                 .inner = 12288,
                 .heads = 16,
                 .key_value_heads = 4,
                 .head_dim = 256,
                 .positions = 32768};
  dense.experts = {};
  Blueprint routed = dense;
  routed.prefix = "Qwen3_5Moe";
  routed.keys.inner = "";
  routed.sizes = {.vocabulary = 248320,
                  .hidden = 2048,
                  .layers = 40,
                  .heads = 16,
                  .key_value_heads = 2,
                  .head_dim = 256,
                  .positions = 32768};
  routed.experts = next.experts;
  routed.experts.count = 256;
  routed.experts.per_token = 8;
  return {{.model_type = "qwen3_next",
           .blueprint = next,
           .attention_bias = "qg k v o",
           .read = read_qwen3_next},
          {.model_type = "qwen3_5_text",
           .blueprint = dense,
           .attention_bias = "qg k v o",
           .read = read_qwen3_5},
          {.model_type = "qwen3_5_moe_text",
           .blueprint = routed,
           .attention_bias = "qg k v o",
           .read = read_qwen3_5_moe}};
}

std::vector<Family> with_other_linear_attention() {
  const char* const normed = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";
  Blueprint olmo{.prefix = "OlmoHybrid",
                 .sizes = {.vocabulary = 100352, .hidden = 3840, .heads = 30, .positions = 65536},
                 .block_class = "AttentionDecoderLayer",
                 .registered = "self_attn mlp post_attention_layernorm post_feedforward_layernorm",
                 .runs = "self_attn post_attention_layernorm mlp post_feedforward_layernorm",
                 .attention = {.weights = normed, .wide_norms = true},
                 .mixer = {.name = "linear_attn", .class_name = "GatedDeltaNet"},
                 .mixer_block_class = "LinearAttentionDecoderLayer",
                 .mixer_registered = "mlp input_layernorm post_attention_layernorm self_attn",
                 .mixer_runs = "input_layernorm self_attn post_attention_layernorm mlp"};
  Blueprint minimax{.prefix = "MiniMax",
                    .sizes = {.inner = 14336, .key_value_heads = 8, .positions = 131072},
                    .registered = "self_attn input_layernorm post_attention_layernorm mlp",
                    .experts = {.name = "block_sparse_moe",
                                .expert_class = "BlockSparseTop2MLP",
                                .weights = "w1:g w2:d w3:u",
                                .count = 8,
                                .per_token = 2},
                    .mixer = {.name = "self_attn", .class_name = "LightningAttention"},
                    .epsilon = 1e-5};
  return {{.model_type = "olmo_hybrid",
           .blueprint = olmo,
           .attention_bias = "q k v o",
           .read = read_olmo_hybrid},
          {.model_type = "minimax", .blueprint = minimax, .read = read_minimax}};
}

std::vector<Family> with_short_convolutions() {
  Blueprint lfm2{.prefix = "Lfm2",
                 .keys = {.epsilon = "norm_eps", .activation = ""},
                 .sizes = {.vocabulary = 65536,
                           .hidden = 2560,
                           .inner = 12288,
                           .key_value_heads = 8,
                           .positions = 128000},
                 .final_norm = "embedding_norm",
                 .registered = "self_attn feed_forward operator_norm ffn_norm",
                 .runs = "operator_norm self_attn ffn_norm feed_forward",
                 .attention = {.weights = "q_proj:q k_proj:k v_proj:v out_proj:o q_layernorm:qn "
                                          "k_layernorm:kn"},
                 .mlp = {.name = "feed_forward", .weights = "w1:g w3:u w2:d"},
                 .mixer = {.name = "conv", .class_name = "ShortConv"},
                 .epsilon = 1e-5,
                 .tied = true};
  Blueprint routed = lfm2;
  routed.prefix = "Lfm2Moe";
  routed.sizes.hidden = 2048;
  routed.sizes.inner = 7168;
  routed.experts = {.name = "feed_forward",
                    .order = "experts router",
                    .weights = "w1:g w3:u w2:d",
                    .count = 32,
                    .per_token = 4,
                    .inner = 1792};
  return {{.model_type = "lfm2", .blueprint = lfm2, .read = read_lfm2},
          {.model_type = "lfm2_moe", .blueprint = routed, .read = read_lfm2_moe}};
}

}  // namespace

const std::vector<Family>& linear_attention_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_delta_rule();
    for (auto* more : {with_other_linear_attention, with_short_convolutions}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
