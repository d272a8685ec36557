// SPDX-License-Identifier: Apache-2.0
// Decoders without gates and rotation that are no GPT-2: norms with biases, learned or computed
// positions; and the texts' halves of CLIP and SigLIP.
#include "engine/architectures/family.h"
#include "engine/model/part_costs.h"

namespace tessera {
namespace {

constexpr SizeKeys xglm_keys{.hidden = "d_model|hidden_size",
                             .inner = "ffn_dim",
                             .layers = "num_layers|num_hidden_layers",
                             .heads = "attention_heads|num_attention_heads",
                             .key_value_heads = "",
                             .head_dim = "",
                             .epsilon = "",
                             .activation = "activation_function"};
constexpr SizeKeys openai_keys{.hidden = "n_embd|hidden_size",
                               .inner = "",
                               .layers = "n_layer|num_hidden_layers",
                               .heads = "n_head|num_attention_heads",
                               .key_value_heads = "",
                               .head_dim = "",
                               .positions = "n_positions|max_position_embeddings",
                               .epsilon = "layer_norm_epsilon",
                               .activation = "afn"};

void read_xglm(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "dropout", 0.1);
  b.attention.kept_scores = kept_scores(true, drops(config, "attention_dropout", 0.1));
  b.scaled_input = config.boolean("scale_embedding", true);
}

void read_biogpt(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "hidden_dropout_prob", 0.1);
  b.scaled_input = config.boolean("scale_embedding", true);
  b.position_rows = b.sizes.positions + 2;
}

void read_openai(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "resid_pdrop", 0.1);
  b.attention.kept_scores = kept_scores(false, drops(config, "attn_pdrop", 0.1));
}

void read_clip_text(JsonReader&, Blueprint& b) { b.headless = true; }

// Its head is a projection of one token.
void read_siglip_text(JsonReader& config, Blueprint& b) {
  b.labels = config.integer("projection_size", 1, b.sizes.hidden);
}

// Two matrices beside attention, which are no module.
Blueprint with_halves(const char* prefix) {
  return {.prefix = prefix,
          .final_norm = "layer_norm",
          .registered = "self_attn self_attn_layer_norm halves final_layer_norm",
          .runs = "self_attn_layer_norm self_attn final_layer_norm halves",
          .attention = {.weights = "k_proj:k v_proj:v q_proj:q out_proj:o",
                        .biases = "q k v o",
                        .rotary = false},
          .mlp = {.name = "halves", .weights = "fc1:u fc2:d", .biases = "u d"},
          .norm = NormKind::layer,
          .epsilon = 1e-5,
          .tied = true};
}

Blueprint of_text(const char* prefix, const Sizes& sizes) {
  Blueprint b = with_halves(prefix);
  b.keys = neox_keys;
  b.sizes = sizes;
  b.dot = "text_model";
  b.embedding = "embeddings.token_embedding";
  b.positions = "embeddings.position_embedding";
  b.layers = "encoder.layers";
  b.block_class = "EncoderLayer";
  b.final_norm = "final_layer_norm";
  b.registered = "self_attn layer_norm1 mlp layer_norm2";
  b.runs = "layer_norm1 self_attn layer_norm2 mlp";
  b.mlp.name = "mlp";
  return b;
}

}  // namespace

const std::vector<Family>& plain_families() {
  Blueprint xglm = with_halves("XGLM");
  xglm.keys = xglm_keys;
  xglm.sizes = {.vocabulary = 256008, .hidden = 1024, .inner = 4096, .layers = 24, .heads = 16};
  Blueprint biogpt = with_halves("BioGpt");
  biogpt.keys = neox_keys;
  biogpt.sizes = {.vocabulary = 42384,
                  .hidden = 1024,
                  .inner = 4096,
                  .layers = 24,
                  .heads = 16,
                  .positions = 1024};
  biogpt.dot = "biogpt";
  biogpt.positions = "embed_positions";
  biogpt.head = "output_projection";
  biogpt.epsilon = 1e-12;
  Blueprint openai = with_halves("OpenAIGPT");
  openai.keys = openai_keys;
  openai.sizes = {
      .vocabulary = 40478, .hidden = 768, .inner = 0, .layers = 12, .heads = 12, .positions = 512};
  openai.dot = "transformer";
  openai.embedding = "tokens_embed";
  openai.positions = "positions_embed";
  openai.layers = "h";
  openai.final_norm = "";
  openai.block_class = "Block";
  openai.registered = openai.runs = "attn ln_1 mlp ln_2";
  openai.attention = {
      .name = "attn", .weights = "c_attn:qkv c_proj:o", .biases = "qkv o", .rotary = false};
  openai.mlp = {.weights = "c_fc:u c_proj:d", .biases = "u d"};
  openai.conv1d = true;
  Blueprint clip = of_text("CLIPText", {.vocabulary = 49408,
                                        .hidden = 512,
                                        .inner = 2048,
                                        .layers = 12,
                                        .heads = 8,
                                        .positions = 77});
  Blueprint siglip = of_text("SiglipText", {.vocabulary = 32000,
                                            .hidden = 768,
                                            .inner = 3072,
                                            .layers = 12,
                                            .heads = 12,
                                            .positions = 64});
  siglip.registered = "layer_norm1 self_attn layer_norm2 mlp";
  siglip.attention.causal = false;
  siglip.head = "text_model.head";
  siglip.head_bias = siglip.pooled = true;
  siglip.epsilon = 1e-6;
  static const std::vector<Family> all = {
      {.model_type = "xglm", .blueprint = xglm, .read = read_xglm},
      {.model_type = "biogpt", .blueprint = biogpt, .read = read_biogpt},
      {.model_type = "openai-gpt",
       .causal = "OpenAIGPTLMHeadModel",
       .blueprint = openai,
       .read = read_openai},
      {.model_type = "clip_text_model",
       .causal = "CLIPTextModel",
       .blueprint = clip,
       .read = read_clip_text},
      {.model_type = "siglip_text_model",
       .causal = "SiglipTextModel",
       .blueprint = siglip,
       .read = read_siglip_text},
  };
  return all;
}

}  // namespace tessera
