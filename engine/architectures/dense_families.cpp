// SPDX-License-Identifier: Apache-2.0
// Decoders of the shape of Llama: gated MLPs, rotary embeddings.
#include "engine/architectures/family.h"
#include "engine/architectures/trained_families.h"

namespace tessera {
namespace {

constexpr SizeKeys layer_norm_keys{.epsilon = "layer_norm_eps"};
constexpr SizeKeys gemma_keys{.activation = "hidden_activation|hidden_act"};
const char* const four_norms =
    "self_attn mlp input_layernorm post_attention_layernorm pre_feedforward_layernorm "
    "post_feedforward_layernorm";
const char* const runs_four_norms =
    "input_layernorm self_attn post_attention_layernorm pre_feedforward_layernorm mlp "
    "post_feedforward_layernorm";
const char* const separate_norms = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn";

void read_qwen2(JsonReader&, Blueprint& b) { b.attention.biases = "q k v"; }

// A cap of 0 or null is none.
void read_gemma(JsonReader& config, Blueprint& b) {
  const bool given = config.json().contains("final_logit_softcapping");
  if (given) b.capped_logits = config.has("final_logit_softcapping");
  if (b.capped_logits) config.positive("final_logit_softcapping", 30);
}

void read_stablelm(JsonReader& config, Blueprint& b) {
  if (config.boolean("use_qkv_bias", false)) b.attention.biases = "q k v";
  if (config.boolean("qk_layernorm", false)) {
    b.attention.weights += " q_layernorm:qn k_layernorm:kn";
    b.attention.norm_per_head = true;
  }
  if (!config.boolean("use_parallel_residual", false)) return;
  b.registered = "self_attn mlp input_layernorm";
  b.runs = "input_layernorm self_attn mlp";
  b.parallel = true;
}

void read_cohere(JsonReader& config, Blueprint& b) {
  if (!config.boolean("use_qk_norm", false)) return;
  b.attention.weights = separate_norms;
  b.attention.norm_table = true;
}

void read_phi(JsonReader& config, Blueprint& b) {
  if (!config.boolean("qk_layernorm", false)) return;
  require_full_heads(config, b);
  b.attention.weights += " q_layernorm:qn k_layernorm:kn";
  b.attention.norm = NormKind::layer;
}

// Two names for the biases of attention, two for those of MLPs, and all are the same.
void read_internlm3(JsonReader& config, Blueprint& b) {
  const bool attention =
      config.boolean(config.has("qkv_bias") ? "qkv_bias" : "attention_bias", false);
  const bool mlp = config.boolean(config.has("bias") ? "bias" : "mlp_bias", false);
  if (attention != mlp) config.fail("qkv_bias", "and bias must be the same");
  if (attention) b.attention.biases = "q k v o";
  if (mlp) b.mlp.biases = "g u d";
}

void read_starcoder2(JsonReader& config, Blueprint& b) {
  if (!config.boolean("use_bias", true)) return;
  b.attention.biases = "q k v o";
  b.mlp.biases = "u d";
}

std::vector<Family> with_one_norm_each() {
  return {
      {.model_type = "llama",
       .other_names = "LLaMAForCausalLM",
       .blueprint = {.prefix = "Llama"},
       .attention_bias = "q k v o",
       .mlp_bias = true,
       .trains = true},
      {.model_type = "mistral",
       .blueprint = {.prefix = "Mistral",
                     .sizes = {.inner = 14336, .key_value_heads = 8, .positions = 131072}},
       .windows = {WindowStyle::all, 4096},
       .trains = true},
      {.model_type = "qwen2",
       .blueprint = {.prefix = "Qwen2",
                     .sizes = {.vocabulary = 151936,
                               .inner = 22016,
                               .key_value_heads = 32,
                               .positions = 32768}},
       .windows = {WindowStyle::after, 4096},
       .trains = true,
       .read = read_qwen2},
      {.model_type = "qwen3",
       .blueprint = {.prefix = "Qwen3",
                     .sizes = {.vocabulary = 151936,
                               .inner = 22016,
                               .key_value_heads = 32,
                               .head_dim = 128,
                               .positions = 32768},
                     .attention = {.weights = separate_norms}},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::after, 4096},
       .trains = true,
       .compute = computed_qwen3},
      {.model_type = "smollm3",
       .blueprint = {.prefix = "SmolLM3",
                     .sizes = {.vocabulary = 128256,
                               .hidden = 2048,
                               .layers = 36,
                               .heads = 16,
                               .key_value_heads = 4,
                               .positions = 32768},
                     .tied = true},
       .attention_bias = "q k v o",
       .mlp_bias = true,
       .trains = true,
       .read = read_smollm3,
       .compute = computed_smollm3,
       .rotary_base = 2e6,
       .padding_token = 128004},
      {.model_type = "granite",
       .blueprint = {.prefix = "Granite", .scaled_input = true},
       .attention_bias = "q k v o",
       .mlp_bias = true},
  };
}

// Configurations of their own, built by Llama's classes.
std::vector<Family> with_classes_of_llama() {
  return {
      {.model_type = "exaone",
       .causal = "ExaoneForCausalLM",
       .blueprint = {.prefix = "Llama",
                     .keys = {.layers = "num_hidden_layers|num_layers"},
                     .sizes = {.vocabulary = 102400,
                               .inner = 14336,
                               .key_value_heads = 8,
                               .positions = 4096},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .mlp_bias = true},
      {.model_type = "internlm3",
       .causal = "InternLM3ForCausalLM",
       .blueprint = {.prefix = "Llama",
                     .sizes = {.vocabulary = 128512,
                               .inner = 10240,
                               .layers = 48,
                               .key_value_heads = 2,
                               .head_dim = 128,
                               .positions = 32768},
                     .epsilon = 1e-5},
       .read = read_internlm3},
  };
}

std::vector<Family> with_fused_weights() {
  return {
      {.model_type = "olmo",
       .blueprint = {.prefix = "Olmo",
                     .keys = {.epsilon = ""},
                     .sizes = {.vocabulary = 50304},
                     .norm = NormKind::plain,
                     .epsilon = 1e-5},
       .attention_bias = "q k v o"},
      {.model_type = "glm",
       .blueprint = {.prefix = "Glm",
                     .sizes = {.vocabulary = 151552,
                               .inner = 13696,
                               .layers = 40,
                               .key_value_heads = 2,
                               .head_dim = 128,
                               .positions = 131072},
                     .mlp = {.weights = "gate_up_proj:gu down_proj:d"},
                     .epsilon = 1.5625e-7},
       .attention_bias = "q k v",
       .biased = true},
      {.model_type = "phi3",
       .blueprint =
           {.prefix = "Phi3",
            .sizes = {.vocabulary = 32064, .hidden = 3072, .inner = 8192, .positions = 4096},
            .attention = {.weights = "o_proj:o qkv_proj:qkv"},
            .mlp = {.weights = "gate_up_proj:gu down_proj:d"},
            .epsilon = 1e-5},
       .windows = {WindowStyle::all, 0},
       .trains = true,
       .compute = computed_phi3,
       .padding_token = 32000},
      {.model_type = "gemma",
       .blueprint = {.prefix = "Gemma",
                     .keys = gemma_keys,
                     .sizes = {.vocabulary = 256000,
                               .hidden = 3072,
                               .inner = 24576,
                               .layers = 28,
                               .heads = 16,
                               .key_value_heads = 16,
                               .head_dim = 256,
                               .positions = 8192},
                     .tied = true,
                     .scaled_input = true},
       .attention_bias = "q k v o",
       .trains = true,
       .compute = computed_gemma,
       .padding_token = 0},
  };
}

std::vector<Family> of_gemma() {
  const Sizes gemma2{.vocabulary = 256000,
                     .hidden = 2304,
                     .inner = 9216,
                     .layers = 26,
                     .heads = 8,
                     .key_value_heads = 4,
                     .head_dim = 256,
                     .positions = 8192};
  Sizes gemma3 = gemma2;
  gemma3.vocabulary = 262208;
  gemma3.positions = 131072;
  return {
      {.model_type = "gemma2",
       .blueprint = {.prefix = "Gemma2",
                     .keys = gemma_keys,
                     .sizes = gemma2,
                     .registered = four_norms,
                     .runs = runs_four_norms,
                     .tied = true,
                     .scaled_input = true,
                     .capped_logits = true},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::pattern, 4096, 2},
       .trains = true,
       .read = read_gemma,
       .compute = computed_gemma2,
       .padding_token = 0},
      {.model_type = "gemma3_text",
       .blueprint = {.prefix = "Gemma3",
                     .keys = gemma_keys,
                     .sizes = gemma3,
                     .base_class = "Gemma3TextModel",
                     .registered = four_norms,
                     .runs = runs_four_norms,
                     .attention = {.weights = separate_norms},
                     .tied = true,
                     .scaled_input = true},
       .attention_bias = "q k v o",
       .windows = {WindowStyle::pattern, 4096, 6, "sliding_window_pattern|_sliding_window_pattern"},
       .trains = true,
       .read = read_gemma,
       .compute = computed_gemma3,
       .rotary_base = 1e6,
       .padding_token = 0},
  };
}

std::vector<Family> with_norms_behind() {
  return {
      {.model_type = "olmo2",
       .blueprint = {.prefix = "Olmo2",
                     .sizes = {.vocabulary = 50304},
                     .registered = "self_attn mlp post_attention_layernorm "
                                   "post_feedforward_layernorm",
                     .runs = "self_attn post_attention_layernorm mlp post_feedforward_layernorm",
                     .attention = {.weights = separate_norms, .wide_norms = true},
                     .epsilon = 1e-5},
       .attention_bias = "q k v o",
       .trains = true,
       .compute = computed_olmo2,
       .padding_token = 1},
      {.model_type = "glm4",
       .blueprint = {.prefix = "Glm4",
                     .sizes = {.vocabulary = 151552,
                               .inner = 13696,
                               .layers = 40,
                               .key_value_heads = 2,
                               .head_dim = 128,
                               .positions = 131072},
                     .registered = "self_attn mlp input_layernorm post_attention_layernorm "
                                   "post_self_attn_layernorm post_mlp_layernorm",
                     .runs = "input_layernorm self_attn post_self_attn_layernorm "
                             "post_attention_layernorm mlp post_mlp_layernorm",
                     .mlp = {.weights = "gate_up_proj:gu down_proj:d"},
                     .epsilon = 1.5625e-7},
       .attention_bias = "q k v",
       .biased = true},
      {.model_type = "stablelm",
       .other_names = "StableLMEpochForCausalLM stablelm_epoch",
       .blueprint = {.prefix = "StableLm",
                     .keys = {.head_dim = "", .epsilon = "layer_norm_eps"},
                     .sizes = {.vocabulary = 50304,
                               .hidden = 2560,
                               .inner = 6912,
                               .key_value_heads = 32,
                               .positions = 4096},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .read = read_stablelm},
  };
}

std::vector<Family> with_layer_norms() {
  const Sizes command_r{.vocabulary = 256000,
                        .hidden = 8192,
                        .inner = 22528,
                        .layers = 40,
                        .heads = 64,
                        .positions = 8192};
  Blueprint cohere{.prefix = "Cohere",
                   .keys = layer_norm_keys,
                   .sizes = command_r,
                   .registered = "self_attn mlp input_layernorm",
                   .runs = "input_layernorm self_attn mlp",
                   .norm = NormKind::layer_bare,
                   .epsilon = 1e-5,
                   .tied = true,
                   .parallel = true};
  Blueprint cohere2 = cohere;
  cohere2.prefix = "Cohere2";
  return {
      {.model_type = "cohere",
       .blueprint = cohere,
       .attention_bias = "q k v o",
       .read = read_cohere},
      {.model_type = "cohere2",
       .blueprint = cohere2,
       .attention_bias = "q k v o",
       .windows = {WindowStyle::pattern, 4096, 4, "sliding_window_pattern"}},
      {.model_type = "phi",
       .blueprint = {.prefix = "Phi",
                     .keys = layer_norm_keys,
                     .sizes = {.vocabulary = 51200, .hidden = 2048, .inner = 8192, .layers = 24},
                     .final_norm = "final_layernorm",
                     .registered = "self_attn mlp input_layernorm",
                     .runs = "input_layernorm self_attn mlp",
                     .attention = {.weights = "q_proj:q k_proj:k v_proj:v dense:o",
                                   .biases = "q k v o"},
                     .mlp = {.weights = "fc1:u fc2:d", .biases = "u d"},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5,
                     .head_bias = true,
                     .parallel = true},
       .read = read_phi},
      {.model_type = "starcoder2",
       .blueprint = {.prefix = "Starcoder2",
                     .keys = {.epsilon = "norm_epsilon"},
                     .sizes = {.vocabulary = 49152,
                               .hidden = 3072,
                               .inner = 12288,
                               .layers = 30,
                               .heads = 24,
                               .key_value_heads = 2,
                               .positions = 4096},
                     .mlp = {.weights = "c_fc:u c_proj:d"},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5,
                     .tied = true},
       .windows = {WindowStyle::all, 0},
       .read = read_starcoder2},
  };
}

}  // namespace

const std::vector<Family>& dense_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = with_one_norm_each();
    for (auto* more : {with_classes_of_llama, with_fused_weights, of_gemma, with_norms_behind,
                       with_layer_norms}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
