// SPDX-License-Identifier: Apache-2.0
// Encoders of a decoder's shape, rotated and gated, and the decoder of ModernBERT's shape.
#include "engine/architectures/family.h"

namespace tessera {
namespace {

void read_euro(JsonReader& config, Blueprint& b) {
  b.head_bias = !b.mlp.biases.empty();
  const std::string pooling = config.text("classifier_pooling", "late");
  if (pooling == "late" || pooling == "mean" || pooling == "bos") return;
  config.fail("classifier_pooling", "must be late, mean or bos");
}

void read_nomic(JsonReader& config, Blueprint& b) {
  b.dropout = drops(config, "hidden_dropout_prob", 0);
  b.position_rows = config.integer("type_vocab_size", 1, 2);
  if (b.tied) return;
  config.fail("tie_word_embeddings", "is false, but this head is built with the embedding alone");
}

// Every third block attends to all, unless `layer_types` says which.
void read_modern_decoder(JsonReader& config, Blueprint& b) {
  b.norm = config.boolean("norm_bias", false) ? NormKind::layer : NormKind::layer_bare;
  if (config.boolean("mlp_bias", false)) b.mlp.biases = "gu d";
  b.head_bias = config.boolean("decoder_bias", true);
  b.head_dense_bias = config.boolean("classifier_bias", false);
  b.dropout = drops(config, "mlp_dropout", 0);
  const std::int64_t window = config.integer("local_attention", 2, 128) / 2;
  if (config.integer("sliding_window", 1, window) != window) {
    config.fail("sliding_window", "is not half of local_attention, which decides: leave it out");
  }
  const std::int64_t every = config.integer("global_attn_every_n_layers", 1, 3);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) {
    b.windows.push_back(k % every == 0 ? 0 : window);
  }
  read_layer_types(config, window, b);
}

Blueprint euro_bert() {
  return {.prefix = "EuroBert",
          .sizes = {.vocabulary = 128256,
                    .hidden = 768,
                    .inner = 3072,
                    .layers = 12,
                    .heads = 12,
                    .positions = 8192},
          .attention = {.causal = false},
          .epsilon = 1e-5};
}

Blueprint nomic_bert() {
  return {.prefix = "NomicBert",
          .keys = {.key_value_heads = "", .epsilon = "layer_norm_eps"},
          .sizes = {.vocabulary = 30528,
                    .hidden = 768,
                    .inner = 3072,
                    .layers = 12,
                    .heads = 12,
                    .positions = 2048},
          .dot = "nomic_bert",
          .embedding = "embeddings.word_embeddings",
          .positions = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .final_norm = "",
          .head = "cls.predictions.decoder",
          .block_class = "Layer",
          .registered = "post_attention_layernorm mlp self_attn post_mlp_layernorm",
          .runs = "self_attn post_attention_layernorm mlp post_mlp_layernorm",
          .attention = {.causal = false},
          .norm = NormKind::layer,
          .epsilon = 1e-12,
          .tied = true,
          .head_bias = true,
          .head_dense = "cls.predictions.transform.dense",
          .head_norm = "cls.predictions.transform.layer_norm",
          .containers =
              "embeddings:Embeddings cls:OnlyMLMHead predictions:LMPredictionHead "
              "transform:PredictionHeadTransform"};
}

Blueprint modern_decoder() {
  return {.prefix = "ModernBertDecoder",
          .keys = {.key_value_heads = "",
                   .head_dim = "",
                   .epsilon = "norm_eps",
                   .activation = "hidden_activation"},
          .sizes = {.vocabulary = 50368,
                    .hidden = 768,
                    .inner = 1152,
                    .layers = 22,
                    .heads = 12,
                    .positions = 8192},
          .embedding = "embeddings.tok_embeddings",
          .embedding_norm = "embeddings.norm",
          .final_norm = "final_norm",
          .head = "decoder",
          .block_class = "Layer",
          .registered = "attn_norm attn mlp_norm mlp",
          .runs = "attn_norm attn mlp_norm mlp",
          .attention = {.name = "attn", .weights = "q_proj:q k_proj:k v_proj:v Wo:o"},
          .mlp = {.weights = "Wi:gu Wo:d"},
          .norm = NormKind::layer_bare,
          .epsilon = 1e-5,
          .tied = true,
          .head_dense = "lm_head.dense",
          .head_norm = "lm_head.norm",
          .not_first = "attn_norm",
          .containers = "embeddings:Embeddings lm_head:PredictionHead"};
}

}  // namespace

const std::vector<Family>& gated_encoder_families() {
  static const std::vector<Family> all = {
      {.model_type = "eurobert",
       .causal = "EuroBertForMaskedLM",
       .blueprint = euro_bert(),
       .attention_bias = "q k v o",
       .mlp_bias = true,
       .read = read_euro},
      {.model_type = "nomic_bert",
       .causal = "NomicBertForMaskedLM",
       .blueprint = nomic_bert(),
       .read = read_nomic},
      {.model_type = "modernbert-decoder",
       .blueprint = modern_decoder(),
       .attention_bias = "q k v o",
       .read = read_modern_decoder},
  };
  return all;
}

}  // namespace tessera
