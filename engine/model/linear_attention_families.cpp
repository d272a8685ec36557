// SPDX-License-Identifier: Apache-2.0
// Decoders in which most blocks have linear attention (gated delta rule, arXiv 2412.06464) or a
// short convolution in the place of attention.
#include <fmt/format.h>

#include <algorithm>

#include "engine/model/expert_keys.h"
#include "engine/model/family.h"
#include "engine/model/mixer_keys.h"
#include "engine/text/words.h"

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

// Linear attention by the delta rule; queries, keys, values and gates are one projection or four.
void read_delta(JsonReader& config, Blueprint& b, bool fused) {
  const std::int64_t keys = config.integer("linear_num_key_heads", 1, 16);
  const std::int64_t values = config.integer("linear_num_value_heads", 1, 32);
  const std::int64_t key_dim = config.integer("linear_key_head_dim", 1, 128);
  const std::int64_t value_dim = config.integer("linear_value_head_dim", 1, 128);
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
  if (fused) {
    tensors.push_back({"in_proj_qkvz", TensorKind::linear, 2 * key + 2 * value, hidden});
    tensors.push_back({"in_proj_ba", TensorKind::linear, 2 * values, hidden});
  }
  tensors.push_back({"norm", TensorKind::norm, value_dim});
  tensors.push_back({"out_proj", TensorKind::linear, hidden, value});
  if (!fused) {
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

void read_qwen3_next(JsonReader& config, Blueprint& b) {
  read_delta(config, b, true);
  read_interval(config, b);
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  b.experts.shared = config.integer("shared_expert_intermediate_size", 1, 512);
  read_sparse_step(config, b);
}

void read_qwen3_5(JsonReader& config, Blueprint& b) {
  read_delta(config, b, false);
  read_interval(config, b);
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
  return {{.model_type = "qwen3_next",
           .blueprint = next,
           .attention_bias = "qg k v o",
           .read = read_qwen3_next},
          {.model_type = "qwen3_5_text",
           .blueprint = dense,
           .attention_bias = "qg k v o",
           .read = read_qwen3_5}};
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

void read_mixer_blocks(JsonReader& config, Blueprint& b, const char* key, const char* mixers,
                       const char* attentions) {
  if (!config.has(key)) return;
  const nlohmann::json& list = config.json()[key];
  const auto layers = static_cast<std::size_t>(b.sizes.layers);
  if (!list.is_array() || list.size() != layers) {
    return config.fail(key, fmt::format("must be a list of {} words", layers));
  }
  for (std::size_t k = 0; k < layers; ++k) {
    const std::string word = list[k].is_string() ? list[k].get<std::string>() : "";
    const bool mixes = lists(mixers, word);
    if (!mixes && !lists(attentions, word)) {
      return config.fail(fmt::format("{}[{}]", key, k),
                         fmt::format("must be one of {} {}", mixers, attentions));
    }
    b.mixer_blocks[k] = mixes;
  }
}

const std::vector<Family>& linear_attention_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_delta_rule();
    for (Family& row : with_short_convolutions()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

}  // namespace tessera
