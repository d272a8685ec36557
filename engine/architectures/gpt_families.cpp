// SPDX-License-Identifier: Apache-2.0
// Decoders of the shape of GPT-2: layer norms, plain MLPs.
#include <fmt/format.h>

#include "engine/architectures/family.h"
#include "engine/architectures/nested_keys.h"
#include "engine/architectures/trained_families.h"
#include "engine/model/part_costs.h"

namespace tessera {
namespace {

constexpr SizeKeys gpt2_keys{.hidden = "n_embd|hidden_size",
                             .inner = "n_inner",
                             .layers = "n_layer|num_hidden_layers",
                             .heads = "n_head|num_attention_heads",
                             .key_value_heads = "",
                             .head_dim = "",
                             .positions = "n_positions|max_position_embeddings",
                             .epsilon = "layer_norm_epsilon",
                             .activation = "activation_function"};
constexpr SizeKeys bloom_keys{.hidden = "hidden_size|n_embed",
                              .inner = "",
                              .layers = "n_layer|num_hidden_layers",
                              .heads = "n_head|num_attention_heads",
                              .key_value_heads = "",
                              .head_dim = "",
                              .positions = "seq_length",
                              .epsilon = "layer_norm_epsilon",
                              .activation = ""};
constexpr SizeKeys neo_keys{.layers = "num_layers|num_hidden_layers",
                            .heads = "num_heads|num_attention_heads",
                            .key_value_heads = "",
                            .head_dim = "",
                            .epsilon = "layer_norm_epsilon",
                            .activation = "activation_function"};
constexpr SizeKeys opt_keys{.inner = "ffn_dim",
                            .key_value_heads = "",
                            .head_dim = "",
                            .epsilon = "",
                            .activation = "activation_function"};
constexpr SizeKeys falcon_keys{.inner = "ffn_hidden_size",
                               .layers = "num_hidden_layers|n_layer",
                               .heads = "num_attention_heads|n_head",
                               .key_value_heads = "",
                               .head_dim = "",
                               .epsilon = "layer_norm_epsilon",
                               .activation = "activation"};
constexpr SizeKeys mpt_keys{.hidden = "d_model|hidden_size",
                            .inner = "",
                            .layers = "n_layers|num_hidden_layers",
                            .heads = "n_heads|num_attention_heads",
                            .key_value_heads = "",
                            .head_dim = "",
                            .positions = "max_seq_len",
                            .epsilon = "layer_norm_epsilon",
                            .activation = ""};
const char* const four_to_one = "dense_h_to_4h:u dense_4h_to_h:d";

void read_gpt2(JsonReader& config, Blueprint& b) { b.dropout = drops(config, "resid_pdrop", 0.1); }

void read_bigcode(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "resid_pdrop", 0.1);
  if (config.boolean("multi_query", true)) b.attention.key_value_heads = 1;
}

void read_gptj(JsonReader& config, Blueprint& b) { b.dropout = drops(config, "resid_pdrop", 0); }

// Blocks as `attention_types` says: [[["global", "local"], 12]] is 24, each second with a window.
void read_neo(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "resid_dropout", 0);
  const std::int64_t window = config.integer("window_size", 1, 256);
  nlohmann::json layers = nlohmann::json::array();
  const auto otherwise = nlohmann::json::parse(R"([[["global", "local"], 12]])");
  const nlohmann::json& types =
      config.has("attention_types") ? config.json()["attention_types"] : otherwise;
  const auto fail = [&] {
    config.fail("attention_types", fmt::format("must be lists of global and local with how often "
                                               "they repeat, {} blocks in all",
                                               b.sizes.layers));
  };
  if (!types.is_array()) return fail();
  for (const nlohmann::json& item : types) {
    const bool pair = item.is_array() && item.size() == 2 && item[0].is_array() &&
                      item[1].is_number_unsigned() && item[1] <= b.sizes.layers;
    if (!pair) return fail();
    for (std::int64_t k = 0; k < item[1].get<std::int64_t>(); ++k) {
      for (const nlohmann::json& word : item[0]) {
        if (word != "global" && word != "local") return fail();
        b.windows.push_back(word == "local" ? window : 0);
        layers.push_back(word);
      }
      if (static_cast<std::int64_t>(b.windows.size()) > b.sizes.layers) return fail();
    }
  }
  if (static_cast<std::int64_t>(b.windows.size()) != b.sizes.layers) return fail();
  if (config.has("attention_layers") && config.json()["attention_layers"] != layers) {
    config.fail("attention_layers", "is not what attention_types says: leave it out");
  }
}

void read_persimmon(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "hidden_dropout", 0);
  if (config.boolean("qk_layernorm", true)) b.attention.weights += " q_layernorm:qn k_layernorm:kn";
}

void read_neox(JsonReader& config, Blueprint& b) {
  b.one_input = config.boolean("use_parallel_residual", true);  // the same parts, either way
  b.dropout = drops(config, "hidden_dropout", 0);
}

void read_opt(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "dropout", 0.1);
  b.mlp.relu = config.text("activation_function", "relu") == "relu";
  b.position_rows = b.sizes.positions + 2;
  b.embedding_width = config.integer("word_embed_proj_dim", 1, b.sizes.hidden);
  if (!config.boolean("enable_bias", true)) b.attention.biases = b.mlp.biases = "";
  if (!config.boolean("layer_norm_elementwise_affine", true)) b.norm = NormKind::plain;
  const bool removed = config.boolean("_remove_final_layer_norm", false);
  if (config.boolean("do_layer_norm_before", true)) {
    b.norm_early = removed ? "" : "final_layer_norm";
    return;
  }
  b.norm_early = "";
  b.runs = "self_attn self_attn_layer_norm halves final_layer_norm";
}

void read_bloom(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "hidden_dropout", 0);
  b.attention.kept_scores = kept_scores(true, drops(config, "attention_dropout", 0));
}

void read_falcon(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "hidden_dropout", 0);
  const bool newer = config.boolean("new_decoder_architecture", false);
  const bool multi_query = config.boolean("multi_query", true);
  const std::int64_t given = integer_of(config, "num_kv_heads|n_head_kv", 1, b.attention.heads);
  b.attention.key_value_heads = newer ? given : multi_query ? 1 : b.attention.heads;
  b.attention.rotary = !config.boolean("alibi", false);
  if (config.boolean("bias", false)) {
    b.attention.biases = "qkv o";
    b.mlp.biases = "u d";
  }
  const bool parallel = config.boolean("parallel_attn", true);
  const std::int64_t norms = config.integer("num_ln_in_parallel_attn", 1, newer ? 2 : 1);
  b.parallel = parallel && norms != 2;
  b.registered = "self_attention mlp input_layernorm";
  b.runs = "input_layernorm self_attention mlp";
  if (!parallel) {
    b.registered = "self_attention mlp post_attention_layernorm input_layernorm";
    b.runs = "input_layernorm self_attention post_attention_layernorm mlp";
  } else if (norms == 2) {
    b.registered = "self_attention mlp ln_attn ln_mlp";
    b.runs = "ln_attn self_attention ln_mlp mlp";
  }
}

void read_mpt(JsonReader& config, Blueprint& b) {
  JsonReader attention =
      nested_keys(config, "attn_config",
                  {"alibi", "alibi_bias_max", "attn_impl", "attn_pdrop", "attn_type",
                   "attn_uses_sequence_id", "clip_qkv", "prefix_lm", "qk_ln", "softmax_scale"});
  const bool dropped = drops(attention, "attn_pdrop", 0);
  config.adopt(attention);
  b.attention.kept_scores = kept_scores(true, dropped);
  const std::int64_t ratio = config.integer("expansion_ratio", 1, 4);
  if (ratio == b.mlp.inner / b.sizes.hidden) return;
  config.fail("expansion_ratio", "must be 4, what transformers builds whatever it says");
}

std::vector<Family> of_gpt2() {
  const Sizes gpt2{
      .vocabulary = 50257, .hidden = 768, .inner = 0, .layers = 12, .heads = 12, .positions = 1024};
  Blueprint learned{.prefix = "GPT2",
                    .keys = gpt2_keys,
                    .sizes = gpt2,
                    .dot = "",  // as in the published checkpoint
                    .embedding = "wte",
                    .positions = "wpe",
                    .layers = "h",
                    .final_norm = "ln_f",
                    .block_class = "Block",
                    .registered = "ln_1 attn ln_2 mlp",
                    .runs = "ln_1 attn ln_2 mlp",
                    .attention = {.name = "attn",
                                  .weights = "c_attn:qkv c_proj:o",
                                  .biases = "qkv o",
                                  .rotary = false},
                    .mlp = {.weights = "c_fc:u c_proj:d", .biases = "u d"},
                    .norm = NormKind::layer,
                    .epsilon = 1e-5,
                    .tied = true,
                    .conv1d = true};
  Blueprint bigcode = learned;
  bigcode.prefix = "GPTBigCode";
  bigcode.dot = "transformer";
  bigcode.conv1d = false;
  Blueprint gptj = bigcode;
  gptj.prefix = "GPTJ";
  gptj.positions = "";
  gptj.sizes = {.vocabulary = 50400,
                .hidden = 4096,
                .inner = 0,
                .layers = 28,
                .heads = 16,
                .positions = 2048};
  gptj.registered = gptj.runs = "ln_1 attn mlp";
  gptj.attention = {.name = "attn", .weights = "k_proj:k v_proj:v q_proj:q out_proj:o"};
  gptj.mlp.weights = "fc_in:u fc_out:d";
  gptj.tied = false;
  gptj.head_bias = gptj.parallel = true;
  Blueprint codegen = gptj;
  codegen.prefix = "CodeGen";
  codegen.attention.weights = "out_proj:o qkv_proj:qkv";
  Blueprint neo = bigcode;
  neo.prefix = "GPTNeo";
  neo.keys = neo_keys;
  neo.sizes = {.vocabulary = 50257, .hidden = 2048, .inner = 0, .layers = 24, .heads = 16};
  neo.attention.weights =
      "attention.k_proj:k attention.v_proj:v attention.q_proj:q attention.out_proj:o";
  neo.attention.biases = "o";
  return {
      {.model_type = "gpt2",
       .causal = "GPT2LMHeadModel",
       .other_names = "gpt-sw3",
       .blueprint = learned,
       .trains = true,
       .read = read_gpt2},
      {.model_type = "gpt_bigcode", .blueprint = bigcode, .read = read_bigcode},
      {.model_type = "gptj", .blueprint = gptj, .read = read_gptj},
      {.model_type = "codegen", .blueprint = codegen, .read = read_gptj},
      {.model_type = "gpt_neo", .blueprint = neo, .read = read_neo},
  };
}

std::vector<Family> of_others() {
  return {
      {.model_type = "gpt_neox",
       .blueprint = {.prefix = "GPTNeoX",
                     .keys = neox_keys,
                     .sizes = {.vocabulary = 50432,
                               .hidden = 6144,
                               .inner = 24576,
                               .layers = 44,
                               .heads = 64},
                     .dot = "gpt_neox",
                     .embedding = "embed_in",
                     .final_norm = "final_layer_norm",
                     .head = "embed_out",
                     .block_class = "Layer",
                     .registered = "input_layernorm post_attention_layernorm attention mlp",
                     .runs = "input_layernorm attention post_attention_layernorm mlp",
                     .attention = {.name = "attention", .weights = "query_key_value:qkv dense:o"},
                     .mlp = {.weights = four_to_one, .biases = "u d"},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .attention_bias = "qkv o",
       .biased = true,
       .trains = true,
       .read = read_neox,
       .compute = computed_neox},
      {.model_type = "persimmon",
       .blueprint = {.prefix = "Persimmon",
                     .keys = neox_keys,
                     .sizes = {.vocabulary = 262144,
                               .inner = 16384,
                               .layers = 36,
                               .heads = 64,
                               .positions = 16384},
                     .final_norm = "final_layernorm",
                     .attention = {.weights = "query_key_value:qkv dense:o",
                                   .biases = "qkv o",
                                   .norm = NormKind::layer},
                     .mlp = {.weights = four_to_one, .biases = "u d"},
                     .norm = NormKind::layer,
                     .epsilon = 1e-5},
       .read = read_persimmon},
      {.model_type = "opt",
       .blueprint =
           {.prefix = "OPT",
            .keys = opt_keys,
            .sizes = {.vocabulary = 50272, .hidden = 768, .inner = 3072, .layers = 12, .heads = 12},
            .dot = "model.decoder",
            .base_class = "OPTDecoder",
            .positions = "embed_positions",
            .final_norm = "",
            .registered = "self_attn self_attn_layer_norm halves final_layer_norm",
            .runs = "self_attn_layer_norm self_attn final_layer_norm halves",
            .attention = {.weights = "k_proj:k v_proj:v q_proj:q out_proj:o",
                          .biases = "q k v o",
                          .rotary = false},
            .mlp = {.name = "halves", .weights = "fc1:u fc2:d", .biases = "u d"},
            .norm = NormKind::layer,
            .epsilon = 1e-5,
            .tied = true},
       .read = read_opt},
  };
}

std::vector<Family> with_fused_heads() {
  return {
      {.model_type = "bloom",
       .blueprint =
           {.prefix = "Bloom",
            .keys = bloom_keys,
            .sizes = {.vocabulary = 250880, .hidden = 64, .inner = 0, .layers = 2, .heads = 8},
            .dot = "transformer",
            .embedding = "word_embeddings",
            .embedding_norm = "word_embeddings_layernorm",
            .layers = "h",
            .final_norm = "ln_f",
            .block_class = "Block",
            .registered = "input_layernorm self_attention post_attention_layernorm mlp",
            .runs = "input_layernorm self_attention post_attention_layernorm mlp",
            .attention = {.name = "self_attention",
                          .weights = "query_key_value:qkv dense:o",
                          .biases = "qkv o",
                          .rotary = false},
            .mlp = {.weights = four_to_one, .biases = "u d"},
            .norm = NormKind::layer,
            .epsilon = 1e-5,
            .tied = true},
       .read = read_bloom},
      {.model_type = "falcon",
       .other_names = "RWForCausalLM RefinedWeb RefinedWebModel",
       .blueprint =
           {.prefix = "Falcon",
            .keys = falcon_keys,
            .sizes = {.vocabulary = 65024, .hidden = 4544, .inner = 0, .layers = 32, .heads = 71},
            .dot = "transformer",
            .embedding = "word_embeddings",
            .layers = "h",
            .final_norm = "ln_f",
            .attention = {.name = "self_attention",
                          .weights = "query_key_value:qkv dense:o",
                          .copied_values = true},
            .mlp = {.weights = four_to_one},
            .norm = NormKind::layer,
            .epsilon = 1e-5,
            .tied = true},
       .read = read_falcon},
      {.model_type = "mpt",
       .other_names = "MPTForCausalLM",
       .blueprint =
           {.prefix = "Mpt",
            .keys = mpt_keys,
            .sizes = {.vocabulary = 50368, .hidden = 2048, .inner = 0, .layers = 24, .heads = 16},
            .dot = "transformer",
            .embedding = "wte",
            .layers = "blocks",
            .final_norm = "norm_f",
            .block_class = "Block",
            .registered = "norm_1 attn norm_2 ffn",
            .runs = "norm_1 attn norm_2 ffn",
            .attention = {.name = "attn", .weights = "Wqkv:qkv out_proj:o", .rotary = false},
            .mlp = {.name = "ffn", .weights = "up_proj:u down_proj:d"},
            .norm = NormKind::layer_bare,
            .epsilon = 1e-5,
            .tied = true},
       .read = read_mpt},
  };
}

}  // namespace

const std::vector<Family>& gpt_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = of_gpt2();
    for (auto* more : {of_others, with_fused_heads}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
