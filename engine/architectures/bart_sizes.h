// SPDX-License-Identifier: Apache-2.0
// What BART (arXiv 1910.13461) and its kin differ in, and the sizes that a config.json gives them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/text/json_reader.h"

namespace tessera {

struct BartKind {
  std::string prefix;
  std::int64_t vocabulary, hidden, inner, heads, positions;
  std::int64_t layers[2];       // of the encoder, of the decoder
  std::int64_t extra_rows = 0;  // of the table of positions; -1: positions are computed
  bool norm_in_front = false;   // of attention and MLP, and one more behind the last block
  bool embedding_norm = false;  // behind the embeddings
  bool frozen_positions = false;
  std::int64_t labels = 2;  // where the configuration says none
  const char* base = "model";
  const char* last_norm = "layer_norm";
  const char* encoder_attention = "k_proj:k v_proj:v q_proj:q out_proj:o";
  bool attention_bias = true;
  bool long_input = false;  // positions of both halves apart, windows in the encoder
  bool global = false;      // tokens that all attend to, with a norm of their own
  // Keys that only some classes have; "": not this one.
  const char* bias_key = "";
  const char* scale_key = "scale_embedding";
  bool scaled = false;  // its default
  const char* table_key = "";
  const char* prompt_key = "";
  bool fused = true;             // attention
  bool blocks = false;           // the encoder attends to blocks, by `block_size`
  double attention_dropout = 0;  // its default
  // Tables of words and a head of its own for each half.
  bool two_tables = false;
  const char* activation = "gelu";
  // Each so many blocks have experts, as the keys say; all blocks have other names then.
  bool routed = false;
};

struct BartSizes {
  std::int64_t vocabulary, hidden;
  std::int64_t layers[2], heads[2], inner[2], positions[2];
  std::int64_t target = 0;  // words of the decoder, where those are others
  std::int64_t window = 0, globals = 0;
  std::int64_t experts = 0, steps[2] = {};  // each so many blocks have them; 0: none
  bool router_bias = false;
  double kept_scores[2] = {};  // as AttentionPart's
  bool dropout, scaled, attention_bias, relu;
};

BartSizes read_bart(JsonReader& config, const BartKind& kind);

}  // namespace tessera
