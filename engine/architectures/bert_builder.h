// SPDX-License-Identifier: Apache-2.0
// BERT (arXiv 1810.04805) and its kin: what they name differently, and what builds all of them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

// Whose heads a model has, and whose blocks.
// Big Bird predicts words as BERT does, and classifies as RoBERTa.
enum class BertStyle { bert, roberta, distil, electra, big_bird };

// What the members of the BERT family name differently.
struct BertNames {
  const char* prefix;
  const char* base;
  BertStyle style = BertStyle::roberta;
  const char* hidden = "hidden_size";
  const char* inner = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* dropout = "hidden_dropout_prob";
  const char* block_list = "encoder.layer";
  const char* embeddings = "word position type norm";  // in the order of registration
  const char* attention = "self.query:q self.key:k self.value:v output.dense:o output.LayerNorm:n";
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512, types = 2;
  std::int64_t hidden_default = 768, inner_default = 3072, layers_default = 12, heads_default = 12;
  const char* width = "";   // key of the tables' width, if it is not the model's
  std::int64_t narrow = 0;  // its default
  bool relative = false;    // a table of relative positions for all blocks
  bool fused = true;        // attention
  bool windowed = false;    // tokens attend to those around them
  // A norm before the MLP instead of behind it, and whether it is registered behind it; one more
  // behind the last block.
  const char* before_mlp = "";
  bool late_norm = false;
  const char* last_norm = "";
  bool always_pools = false;  // whatever the head is
  const char* pooler = "pooler.dense";
  const char* first_norm = "LayerNorm";  // of the embeddings
  const char* bias_key = "";             // of queries, keys and values; "": they have one
  bool rotary = false;
  bool contacts = false;  // what predicts which tokens touch, of all heads of all blocks
  bool blocks = false;    // tokens attend to blocks of others, by `block_size`
};

Result<Model> build_bert(const BertNames& names, JsonReader& config, const std::string& head,
                         const std::string& name);

}  // namespace tessera
