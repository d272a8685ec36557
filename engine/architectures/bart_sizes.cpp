// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/bart_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

// What the encoders of models of long texts attend to: a window on either side, or blocks.
void read_long(JsonReader& config, const BartKind& kind, BartSizes& s) {
  s.attention_bias = kind.attention_bias;
  if (kind.long_input) {
    s.positions[0] = config.integer("max_encoder_position_embeddings", 1, 16384);
    s.positions[1] = config.integer("max_decoder_position_embeddings", 1, 1024);
    s.window = window_of(config, s.layers[0]);
  }
  if (kind.blocks) s.window = blocks_around(config);
  if (*kind.bias_key != '\0') s.attention_bias = config.boolean(kind.bias_key, false);
  if (kind.global) {
    s.globals = config.integer("num_global_tokens", 1, 32);
    s.window = config.integer("block_size", 2, 512) / 2;
  }
}

void read_routed(JsonReader& config, BartSizes& s) {
  constexpr std::int64_t most = 4096;
  s.experts = config.integer("num_experts", 2, 128);
  if (s.experts > most) {
    config.fail("num_experts", fmt::format("is {}, more than {}", s.experts, most));
  }
  s.experts = std::min(s.experts, most);
  s.steps[0] = config.integer("encoder_sparse_step", 0, 4);
  s.steps[1] = config.integer("decoder_sparse_step", 0, 4);
  s.router_bias = config.boolean("router_bias", false);
}

// One table for both halves and the head, or three of their own.
void read_ties(JsonReader& config, const BartKind& kind) {
  if (kind.two_tables) {
    if (!config.boolean("tie_word_embeddings", false)) return;
    return config.fail("tie_word_embeddings",
                       "is true, but this model is built with a head of its own: describe it as a "
                       "module tree");
  }
  for (const char* key : {"tie_word_embeddings", kind.table_key}) {
    if (*key == '\0' || config.boolean(key, true)) continue;
    config.fail(key,
                "is false, but this model is built with one table for both halves and the "
                "head: describe it as a module tree");
  }
}

// Windows are computed in float32, and what is outside of them is masked.
void read_scores(JsonReader& config, const BartKind& kind, BartSizes& s) {
  const bool windows = kind.long_input;
  if (kind.fused && !windows) return;
  const bool dropped = drops(config, "attention_dropout", kind.attention_dropout);
  s.kept_scores[0] = kept_scores(windows, dropped) + (windows ? 1 : 0);
  if (!kind.fused) s.kept_scores[1] = kept_scores(false, dropped);
}

}  // namespace

BartSizes read_bart(JsonReader& config, const BartKind& kind) {
  BartSizes s{};
  s.vocabulary =
      config.integer(kind.two_tables ? "src_vocab_size" : "vocab_size", 1, kind.vocabulary);
  if (kind.two_tables) s.target = config.integer("tgt_vocab_size", 1, kind.vocabulary);
  if (kind.routed) read_routed(config, s);
  s.hidden = integer_of(config, "d_model|hidden_size", 1, kind.hidden);
  if (!kind.long_input) {
    s.positions[0] = config.integer("max_position_embeddings", 1, kind.positions);
    s.positions[1] = s.positions[0];
  }
  s.layers[0] = blocks_of(config, "encoder_layers|num_hidden_layers", kind.layers[0]);
  s.layers[1] = blocks_of(config, "decoder_layers", kind.layers[1]);
  read_long(config, kind, s);
  s.heads[0] = heads_of(config, "encoder_attention_heads|num_attention_heads", kind.heads,
                        "d_model", s.hidden);
  s.heads[1] = heads_of(config, "decoder_attention_heads", kind.heads, "d_model", s.hidden);
  s.inner[0] = config.integer("encoder_ffn_dim", 1, kind.inner);
  s.inner[1] = config.integer("decoder_ffn_dim", 1, kind.inner);
  s.dropout = probability_of(config, "dropout", 0.1) > 0;
  s.relu = config.text("activation_function", kind.activation) == "relu";
  read_scores(config, kind, s);
  s.scaled = *kind.scale_key != '\0' && config.boolean(kind.scale_key, kind.scaled);
  read_ties(config, kind);
  if (*kind.prompt_key != '\0' && config.boolean(kind.prompt_key, false)) {
    config.fail(kind.prompt_key,
                "is true, but prompts are not built: describe it as a module tree");
  }
  // Others ignore it.
  const bool two = *kind.table_key != '\0';
  if (two && config.integer("decoder_vocab_size", 1, s.vocabulary) != s.vocabulary) {
    config.fail("decoder_vocab_size", fmt::format("is not vocab_size {}, but both halves have one "
                                                  "table here",
                                                  s.vocabulary));
  }
  return s;
}

}  // namespace tessera
