// SPDX-License-Identifier: Apache-2.0
// Language models with blocks of their own for attention to images (Llama 3.2's, arXiv 2407.21783):
// texts alone pass them by.
#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

void read_mllama(JsonReader& config, Blueprint& b) {
  b.tied = false;
  if (config.boolean("tie_word_embeddings", false)) {
    config.fail("tie_word_embeddings",
                "is true, but the embedding has 8 rows more than the head, and transformers never "
                "ties them: leave it out");
  }
  drops(config, "dropout", 0);  // of attention
  b.idle.which.assign(static_cast<std::size_t>(b.sizes.layers), false);
  if (config.has("cross_attention_layers")) {
    return mark_blocks(config, "cross_attention_layers", true, b.idle.which);
  }
  for (std::size_t k = 3; k < std::min<std::size_t>(b.idle.which.size(), 40); k += 5) {
    b.idle.which[k] = true;
  }
}

}  // namespace

const std::vector<Family>& image_text_families() {
  static const std::vector<Family> all = {
      {.model_type = "mllama_text_model",
       .blueprint = {.prefix = "Mllama",
                     .keys = {.head_dim = ""},
                     .sizes = {.vocabulary = 128256,
                               .inner = 14336,
                               .layers = 40,
                               .key_value_heads = 8,
                               .positions = 131072},
                     .base_class = "MllamaTextModel",
                     .block_class = "SelfAttentionDecoderLayer",
                     .attention = {.class_name = "MllamaTextSelfAttention"},
                     .mlp = {.class_name = "MllamaTextMLP"},
                     .epsilon = 1e-5,
                     .spare_rows = 8,
                     .idle = {.block_class = "CrossAttentionDecoderLayer",
                              .attention = "MllamaTextCrossAttention",
                              .weights = "q_proj:q k_proj:k v_proj:v o_proj:o q_norm:qn k_norm:kn",
                              .numbers = "cross_attn_attn_gate cross_attn_mlp_gate"}},
       .read = read_mllama,
       .rotary_base = 500000},
  };
  return all;
}

}  // namespace tessera
