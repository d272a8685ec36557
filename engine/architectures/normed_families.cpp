// SPDX-License-Identifier: Apache-2.0
// Decoders of the shape of Llama that differ in norms, in where biases are, or in an MLP without a
// gate.
#include "engine/architectures/family.h"

namespace tessera {
namespace {

const char* const normed_head_weights = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";
const char* const ungated = "up_proj:u down_proj:d";

// One key for the biases of all matrices.
void read_ernie(JsonReader& config, Blueprint& b) {
  if (!config.boolean("use_bias", false)) return;
  b.attention.biases = "q k v o";
  b.mlp.biases = "g u d";
}

void read_helium(JsonReader& config, Blueprint& b) { require_full_heads(config, b); }

void read_jais2(JsonReader& config, Blueprint& b) {
  if (config.boolean("mlp_bias", true)) b.mlp.biases = "u d";
}

void read_seed_oss(JsonReader& config, Blueprint& b) {
  if (config.boolean("attention_out_bias", false)) b.attention.biases += " o";
  b.dropout = drops(config, "residual_dropout", 0.1);
}

// Their biases of an MLP.
void read_ungated(JsonReader& config, Blueprint& b) {
  if (config.boolean("mlp_bias", false)) b.mlp.biases = "u d";
}

// Its activation function is trained.
void read_apertus(JsonReader& config, Blueprint& b) {
  if (config.text("hidden_act", "xielu") == "xielu") b.mlp.weights += " act_fn:xielu";
}

// Norms behind attention and MLP, too, unless the file says otherwise.
void read_hyperclova(JsonReader& config, Blueprint& b) {
  if (!config.boolean("use_post_norm", true)) return;
  b.registered += " post_norm1 post_norm2";
  b.runs = "input_layernorm self_attn post_norm1 post_attention_layernorm mlp post_norm2";
}

void read_bitnet(JsonReader& config, Blueprint& b) { require_full_heads(config, b); }

std::vector<Family> of_llama_with_other_norms() {
  return {
      {.model_type = "iquestcoder",
       .causal = "IQuestCoderForCausalLM",
       .blueprint = {.prefix = "Llama",
                     .sizes = {.vocabulary = 76800,
                               .hidden = 5120,
                               .inner = 27648,
                               .layers = 80,
                               .heads = 40,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 131072},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .mlp_bias = true},
      {.model_type = "hyperclovax",
       .blueprint = {.prefix = "HyperCLOVAX", .scaled_input = true},
       .attention_bias = "q k v o",
       .mlp_bias = true,
       .read = read_hyperclova},
      {.model_type = "bitnet",
       .blueprint = {.prefix = "BitNet",
                     .sizes = {.vocabulary = 128256,
                               .hidden = 2560,
                               .inner = 6912,
                               .layers = 30,
                               .heads = 20,
                               .key_value_heads = 5},
                     .attention = {.weights =
                                       "q_proj:q k_proj:k v_proj:v attn_sub_norm:sn o_proj:o"},
                     .mlp = {.weights = "gate_proj:g up_proj:u ffn_sub_norm:n down_proj:d"},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .read = read_bitnet},
      {.model_type = "glm4v_text",
       .blueprint = {.prefix = "Glm4vText",
                     .keys = {.head_dim = ""},
                     .sizes = {.vocabulary = 151552,
                               .inner = 13696,
                               .layers = 40,
                               .key_value_heads = 2,
                               .positions = 32768},
                     .registered = "self_attn mlp input_layernorm post_attention_layernorm "
                                   "post_self_attn_layernorm post_mlp_layernorm",
                     .runs = "input_layernorm self_attn post_self_attn_layernorm "
                             "post_attention_layernorm mlp post_mlp_layernorm",
                     .attention = {.biases = "q k v"},
                     .mlp = {.weights = "gate_up_proj:gu down_proj:d"},
                     .epsilon = 1e-5}},
  };
}

std::vector<Family> with_gates() {
  return {
      {.model_type = "ernie4_5",
       .blueprint = {.prefix = "Ernie4_5",
                     .sizes = {.vocabulary = 103424,
                               .hidden = 1024,
                               .inner = 3072,
                               .layers = 18,
                               .heads = 16,
                               .key_value_heads = 2,
                               .head_dim = 128,
                               .positions = 131072},
                     .epsilon = 1e-5,
                     .tied = true},
       .read = read_ernie},
      {.model_type = "seed_oss",
       .blueprint = {.prefix = "SeedOss",
                     .sizes = {.vocabulary = 155136,
                               .inner = 27648,
                               .layers = 64,
                               .heads = 80,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 524288}},
       .attention_bias = "q k v",
       .biased = true,
       .mlp_bias = true,
       .read = read_seed_oss},
      {.model_type = "hunyuan_v1_dense",
       .blueprint = {.prefix = "HunYuanDenseV1",
                     .sizes = {.vocabulary = 290943},
                     .attention = {.weights = "q_proj:q k_proj:k v_proj:v o_proj:o "
                                              "query_layernorm:qn key_layernorm:kn"},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o"},
      {.model_type = "ministral",
       .blueprint = {.prefix = "Ministral",
                     .sizes = {.inner = 14336, .key_value_heads = 8, .positions = 131072}},
       .windows = {WindowStyle::all, 4096}},
      {.model_type = "ministral3",
       .blueprint = {.prefix = "Ministral3",
                     .sizes = {.vocabulary = 131072,
                               .inner = 14336,
                               .layers = 34,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 262144},
                     .epsilon = 1e-5},
       .windows = {WindowStyle::all, 0}},
  };
}

std::vector<Family> of_helium_and_vaultgemma() {
  return {
      {.model_type = "helium",
       .blueprint = {.prefix = "Helium",
                     .sizes = {.vocabulary = 48000,
                               .hidden = 2560,
                               .inner = 7040,
                               .layers = 24,
                               .heads = 20,
                               .key_value_heads = 20,
                               .head_dim = 128,
                               .positions = 4096},
                     .epsilon = 1e-8},
       .attention_bias = "q k v",
       .mlp_bias = true,
       .read = read_helium},
      {.model_type = "vaultgemma",
       .blueprint = {.prefix = "VaultGemma",
                     .sizes = {.vocabulary = 256000,
                               .hidden = 2304,
                               .inner = 9216,
                               .layers = 26,
                               .heads = 8,
                               .key_value_heads = 4,
                               .head_dim = 256,
                               .positions = 8192},
                     .registered = "self_attn mlp input_layernorm pre_feedforward_layernorm",
                     .runs = "input_layernorm self_attn pre_feedforward_layernorm mlp",
                     .tied = true,
                     .scaled_input = true,
                     .capped_logits = true},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::pattern, 4096, 2}},
  };
}

// The language models of Qwen's models of images.
std::vector<Family> of_qwen_with_images() {
  Blueprint second{.prefix = "Qwen2VLText",
                   .sizes = {.vocabulary = 152064,
                             .hidden = 8192,
                             .inner = 29568,
                             .layers = 80,
                             .heads = 64,
                             .key_value_heads = 8,
                             .positions = 32768},
                   .attention = {.biases = "q k v"},
                   .epsilon = 1e-5};
  Blueprint newer = second;
  newer.prefix = "Qwen2_5_VLText";
  return {
      {.model_type = "qwen2_vl_text", .blueprint = second, .windows = {WindowStyle::after, 4096}},
      {.model_type = "qwen2_5_vl_text", .blueprint = newer, .windows = {WindowStyle::after, 4096}},
      {.model_type = "qwen3_vl_text",
       .blueprint =
           {.prefix = "Qwen3VLText",
            .sizes = {.vocabulary = 151936, .inner = 22016, .head_dim = 128, .positions = 128000},
            .attention = {.weights = normed_head_weights}},
       .attention_bias = "q k v o"}};
}

// Norms behind attention and MLP instead of before them.
std::vector<Family> with_norms_at_the_end() {
  Blueprint olmo3{.prefix = "Olmo3",
                  .sizes = {.vocabulary = 50304},
                  .registered = "self_attn mlp post_attention_layernorm post_feedforward_layernorm",
                  .runs = "self_attn post_attention_layernorm mlp post_feedforward_layernorm",
                  .attention = {.weights = normed_head_weights, .wide_norms = true},
                  .epsilon = 1e-5};
  Blueprint exaone4 = olmo3;
  exaone4.prefix = "Exaone4";
  exaone4.sizes = {.vocabulary = 102400, .inner = 16384, .key_value_heads = 32};
  exaone4.attention.wide_norms = false;
  return {
      {.model_type = "olmo3",
       .blueprint = olmo3,
       .attention_bias = "q k v o",
       .windows = {WindowStyle::pattern, 4096, 4}},
      {.model_type = "exaone4",
       .blueprint = exaone4,
       .windows = {WindowStyle::pattern, 4096, 4, "sliding_window_pattern"}},
  };
}

std::vector<Family> without_gates() {
  return {
      {.model_type = "arcee",
       .blueprint = {.prefix = "Arcee",
                     .sizes = {.hidden = 2560, .inner = 18432, .positions = 4096},
                     .mlp = {.weights = ungated},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .read = read_ungated},
      {.model_type = "nemotron",
       .blueprint = {.prefix = "Nemotron",
                     .keys = {.epsilon = "norm_eps"},
                     .sizes = {.vocabulary = 256000,
                               .hidden = 6144,
                               .inner = 24576,
                               .heads = 48,
                               .positions = 4096},
                     .mlp = {.weights = ungated},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .read = read_ungated},
      {.model_type = "jais2",
       .blueprint = {.prefix = "Jais2",
                     .keys = {.epsilon = "layer_norm_eps"},
                     .sizes = {.vocabulary = 150272,
                               .hidden = 3328,
                               .inner = 26624,
                               .heads = 26,
                               .positions = 8192},
                     .mlp = {.weights = ungated},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .biased = true,
       .read = read_jais2},
      {.model_type = "nanochat",
       .blueprint =
           {.prefix = "NanoChat",
            .sizes = {.vocabulary = 50304, .hidden = 768, .inner = 8192, .layers = 12, .heads = 6},
            .mlp = {.weights = "fc1:u fc2:d"},
            .norm = NormKind::plain,
            .capped_logits = true},
       .attention_bias = "q k v o"},
      {.model_type = "apertus",
       .blueprint = {.prefix = "Apertus",
                     .sizes = {.vocabulary = 131072, .inner = 14336, .positions = 65536},
                     .registered = "self_attn mlp attention_layernorm feedforward_layernorm",
                     .runs = "attention_layernorm self_attn feedforward_layernorm mlp",
                     .attention = {.weights = normed_head_weights},
                     .mlp = {.weights = ungated},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .read = read_apertus},
  };
}

}  // namespace

const std::vector<Family>& normed_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_gates();
    for (auto* more : {of_helium_and_vaultgemma, of_qwen_with_images, of_llama_with_other_norms,
                       with_norms_at_the_end, without_gates}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
