// SPDX-License-Identifier: Apache-2.0
// BART (arXiv 1910.13461) and its kin: encoders with decoders that differ in where norms are and in
// how positions are known.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

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
  double attention_dropout = 0;  // its default
  // Tables of words and a head of its own for each half.
  bool two_tables = false;
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
  double kept_scores = 0;  // as AttentionPart's
  bool dropout, scaled, attention_bias;
};

// What the encoders of models of long texts attend to: a window on either side, or blocks.
void read_long(JsonReader& config, const BartKind& kind, BartSizes& s) {
  s.attention_bias = kind.attention_bias;
  if (kind.long_input) {
    s.positions[0] = config.integer("max_encoder_position_embeddings", 1, 16384);
    s.positions[1] = config.integer("max_decoder_position_embeddings", 1, 1024);
    s.window = window_of(config, s.layers[0]);
  }
  if (*kind.bias_key != '\0') s.attention_bias = config.boolean(kind.bias_key, false);
  if (kind.global) {
    s.globals = config.integer("num_global_tokens", 1, 32);
    s.window = config.integer("block_size", 2, 512) / 2;
  }
}

void read_routed(JsonReader& config, BartSizes& s) {
  constexpr std::int64_t most = 4096;
  s.experts = config.integer("num_experts", 2, 128);
  if (s.experts > most)
    config.fail("num_experts", fmt::format("is {}, more than {}", s.experts, most));
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
  if (!kind.fused)
    s.kept_scores = kept_scores(false, drops(config, "attention_dropout", kind.attention_dropout));
  s.scaled = *kind.scale_key != '\0' && config.boolean(kind.scale_key, kind.scaled);
  read_ties(config, kind);
  if (*kind.prompt_key != '\0' && config.boolean(kind.prompt_key, false)) {
    config.fail(kind.prompt_key,
                "is true, but prompts are not built: describe it as a module tree");
  }
  if (config.integer("decoder_vocab_size", 1, s.vocabulary) != s.vocabulary) {
    config.fail("decoder_vocab_size", fmt::format("is not vocab_size {}, but both halves have one "
                                                  "table here",
                                                  s.vocabulary));
  }
  return s;
}

class BartBuilder {
 public:
  BartBuilder(const BartKind& kind, const BartSizes& sizes, const std::string& head,
              std::int64_t labels, const std::string& name, DType dtype)
      : kind_(kind),
        s_(sizes),
        head_(head),
        labels_(labels),
        causal_(head == "ForCausalLM"),
        base_(head == "Model" ? "" : std::string(kind.base) + "."),
        w_(name, kind.prefix + head, kind.prefix, dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.positions[1], s_.heads[1], s_.hidden);
    w_.container(kind_.base, kind_.prefix + (causal_ ? "DecoderWrapper" : "Model"));
    w_.container(base_ + "encoder", kind_.prefix + "Encoder");
    w_.container(base_ + "decoder", kind_.prefix + "Decoder");
    w_.container("classification_head", kind_.prefix + "ClassificationHead");
    table_ = base_ + (causal_ ? "decoder.embed_tokens" : "shared");
    if (!kind_.two_tables) {
      shared_ = w_.embedding(table_, s_.vocabulary, s_.hidden, false, s_.scaled);
    }
    if (!causal_) half(0);
    half(1);
    finish();
    return w_.take();
  }

 private:
  void finish() {
    if (kind_.two_tables) return;  // its decoder has the head
    if (head_ == "ForConditionalGeneration" || head_ == "MTModel" || causal_) {
      w_.runs(w_.head("lm_head", s_.hidden, s_.vocabulary, table_ + ".weight", false, false,
                      /*wide=*/false));
    } else if (head_ == "ForSequenceClassification") {
      for (const auto& [name, out] : {std::pair{"dense", s_.hidden}, {"out_proj", labels_}}) {
        const ModuleId id =
            w_.linear(std::string("classification_head.") + name, s_.hidden, out, true);
        fix_length(w_.tree().module(id).cost, 1);  // reads the last token only
        w_.runs(id);
      }
    } else if (head_ == "ForQuestionAnswering") {
      w_.runs(w_.linear("qa_outputs", s_.hidden, 2, true));
    }
  }

  ModuleId norm(const std::string& path) { return w_.norm(path, NormKind::layer, s_.hidden); }

  void half(int side) {
    const std::string at = base_ + (side == 0 ? "encoder." : "decoder.");
    if (kind_.two_tables) {
      const std::int64_t rows = side == 0 ? s_.vocabulary : s_.target;
      w_.runs(w_.embedding(at + "embed_tokens", rows, s_.hidden, false, s_.scaled));
    } else {
      w_.runs(shared_);
    }
    if (side == 0 && s_.globals > 0) {
      const ModuleId id = w_.embedding(at + "embed_global", s_.globals, s_.hidden, false);
      fix_length(w_.tree().module(id).cost, s_.globals);
      w_.runs(id);
    }
    if (kind_.extra_rows >= 0) {
      w_.runs(w_.embedding(at + "embed_positions", s_.positions[side] + kind_.extra_rows, s_.hidden,
                           /*added=*/true));
      w_.model().parameters.back().requires_grad = !kind_.frozen_positions;
    }
    // Registered behind the blocks, and run before them.
    const auto place = w_.model().forward.size();
    for (std::int64_t k = 0; k < s_.layers[side]; ++k) {
      const std::string path = at + "layers." + std::to_string(k);
      w_.begin_block(path, kind_.prefix + (side == 0 ? "EncoderLayer" : "DecoderLayer"), s_.hidden);
      block(path, side, (k + 1) % std::max<std::int64_t>(s_.steps[side], 1) == 0);
    }
    if (kind_.two_tables && side == 1) {
      w_.runs(w_.head(at + "output_projection", s_.hidden, s_.target, "", false, false,
                      /*wide=*/false));
    }
    if (kind_.embedding_norm) {
      auto& forward = w_.model().forward;
      forward.insert(forward.begin() + static_cast<std::ptrdiff_t>(place),
                     norm(at + "layernorm_embedding"));
    }
    if (kind_.norm_in_front) w_.runs(norm(at + kind_.last_norm));
  }

  ModuleId attend(const std::string& path, int side, bool causal) {
    const bool encodes = side == 0;
    const AttentionPart part{
        .weights = encodes ? kind_.encoder_attention : "k_proj:k v_proj:v q_proj:q out_proj:o",
        .biases = s_.attention_bias ? "q k v p o" : "",
        .heads = s_.heads[side],
        .key_value_heads = s_.heads[side],
        .head_dim = s_.hidden / s_.heads[side],
        .rotary = false,
        .causal = causal,
        .kept_scores = s_.kept_scores};
    const ModuleId id = w_.attention(path, part, s_.hidden, false, s_.dropout);
    if (encodes) w_.tree().module(id).cost.attention.window = s_.window;
    return id;
  }

  // An MLP, or experts.
  std::vector<ModuleId> widen(const std::string& path, int side, bool chosen) {
    const MlpPart mlp{.weights = "fc1:u fc2:d", .biases = "u d", .inner = s_.inner[side]};
    const std::string at = path + (kind_.routed ? ".ffn" : "");
    if (kind_.routed) w_.container(at, kind_.prefix + "DenseActDense");
    if (s_.steps[side] == 0 || !chosen) return w_.mlp_halves(at, mlp, s_.hidden, s_.dropout);
    return {w_.experts(at,
                       {.name = "ffn",
                        .class_name = "SparseMLP",
                        .router = "classifier",
                        .router_module = "router",
                        .numbered = "expert_",
                        .expert_class = "DenseActDense",
                        .weights = "fc1:u fc2:d",
                        .count = s_.experts,
                        .per_token = 2,
                        .inner = s_.inner[side],
                        .router_bias = s_.router_bias,
                        .bias = true},
                       s_.hidden)};
  }

  // A norm before or behind each part.
  void block(const std::string& path, int side, bool chosen) {
    std::vector<std::pair<ModuleId, std::vector<ModuleId>>> parts;  // a norm and what it belongs to
    const ModuleId self = attend(path + ".self_attn", side, side == 1);
    parts.push_back({norm(path + ".self_attn_layer_norm"), {self}});
    if (side == 0 && s_.globals > 0) {
      const ModuleId its_norm = norm(path + ".global_self_attn_layer_norm");
      fix_length(w_.tree().module(its_norm).cost, s_.globals);
      parts.push_back({its_norm, {}});
    }
    if (side == 1) {
      const std::string name = kind_.routed ? ".cross_attention" : ".encoder_attn";
      const ModuleId cross = attend(path + name, side, false);
      const ModuleId its_norm = norm(path + name + "_layer_norm");
      if (!causal_) parts.push_back({its_norm, {cross}});  // without an encoder it is idle
    }
    const auto inner = widen(path, side, chosen);
    parts.push_back({norm(path + (kind_.routed ? ".ff_layer_norm" : ".final_layer_norm")), inner});
    for (const auto& [its_norm, modules] : parts) {
      if (kind_.norm_in_front) w_.runs(its_norm);
      for (const ModuleId id : modules) w_.runs(id);
      if (!kind_.norm_in_front) w_.runs(its_norm);
    }
  }

  const BartKind& kind_;
  const BartSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const bool causal_;
  const std::string base_;
  std::string table_;  // of both halves and the head
  PartWriter w_;
  ModuleId shared_;
};

EncoderFamily family(const std::string& model_type, const std::string& heads,
                     const BartKind& kind) {
  return {model_type, kind.prefix, heads,
          [kind](JsonReader& config, const std::string& head,
                 const std::string& name) -> Result<Model> {
            const BartSizes sizes = read_bart(config, kind);
            const bool said = config.has("id2label") || config.has("num_labels");
            const std::int64_t labels = said ? labels_of(config) : kind.labels;
            const DType dtype = encoder_dtype(config);
            TESSERA_TRY(config.status());
            return checked(BartBuilder(kind, sizes, head, labels, name, dtype).build(), config);
          }};
}

// Models of long texts: half of what a token of LED attends to lies on either side; the blocks of
// the others are counted as windows.
BartKind led() {
  BartKind kind{"LED", 50265, 1024, 4096, 16, 1024, {12, 12}, 0, false, true};
  kind.base = "led";
  kind.encoder_attention =
      "longformer_self_attn.query:q longformer_self_attn.key:k longformer_self_attn.value:v "
      "longformer_self_attn.query_global:p longformer_self_attn.key_global:p "
      "longformer_self_attn.value_global:p output:o";
  kind.long_input = true;
  kind.scale_key = "";
  return kind;
}

BartKind pegasus_x() {
  BartKind kind{"PegasusX", 96103, 1024, 4096, 16, 16384, {16, 16}, -1, true};
  kind.attention_bias = false;
  kind.global = true;
  kind.scaled = true;
  return kind;
}

BartKind bigbird_pegasus() {
  BartKind kind{"BigBirdPegasus", 96103, 1024, 4096, 16, 4096, {16, 16}, 0, true};
  kind.encoder_attention = "self.query:q self.key:k self.value:v output:o";
  kind.last_norm = "layernorm_embedding";
  kind.bias_key = "use_bias";
  kind.scaled = true;
  return kind;
}

BartKind marian() {
  BartKind kind{"Marian", 58101, 1024, 4096, 16, 1024, {12, 12}, 0, false, false, true};
  kind.table_key = "share_encoder_decoder_embeddings";
  return kind;
}

BartKind fsmt() {
  BartKind kind{"FSMT", 42024, 1024, 4096, 16, 1024, {12, 12}, 2, false, false, true};
  kind.two_tables = true;
  kind.scaled = true;
  kind.fused = false;
  return kind;
}

BartKind nllb() {
  BartKind kind{"NllbMoe", 128112, 1024, 4096, 16, 1024, {12, 12}, -1, true};
  kind.routed = true;
  kind.scaled = true;
  kind.fused = false;
  kind.attention_dropout = 0.1;
  return kind;
}

BartKind mvp() {
  BartKind kind{"Mvp", 50267, 1024, 4096, 16, 1024, {12, 12}, 2, false, true};
  kind.prompt_key = "use_prompt";
  kind.fused = false;
  return kind;
}

}  // namespace

const std::vector<EncoderFamily>& bart_families() {
  const std::string heads = "ForConditionalGeneration Model ForCausalLM";
  const std::string classes = heads + " ForSequenceClassification ForQuestionAnswering";
  static const std::vector<EncoderFamily> all = {
      family("bart", classes,
             {"Bart", 50265, 1024, 4096, 16, 1024, {12, 12}, 2, false, true, false, 3}),
      family("mbart", classes, {"MBart", 50265, 1024, 4096, 16, 1024, {12, 12}, 2, true, true}),
      family("mvp", classes, mvp()),
      family("plbart", heads + " ForSequenceClassification",
             {"PLBart", 50005, 768, 3072, 12, 1024, {6, 6}, 2, false, true}),
      family("pegasus", heads,
             {"Pegasus", 50265, 1024, 4096, 16, 1024, {12, 12}, 0, true, false, true}),
      family("marian", "MTModel Model ForCausalLM", marian()),
      family("m2m_100", "ForConditionalGeneration Model",
             {"M2M100", 128112, 1024, 4096, 16, 1024, {12, 12}, -1, true}),
      family("blenderbot", heads, {"Blenderbot", 8008, 2560, 10240, 32, 128, {2, 24}, 0, true}),
      family("fsmt", "ForConditionalGeneration Model", fsmt()),
      family("nllb-moe", "ForConditionalGeneration Model", nllb()),
      family("led", "ForConditionalGeneration Model ForQuestionAnswering", led()),
      family("pegasus_x", "ForConditionalGeneration Model", pegasus_x()),
      family("bigbird_pegasus",
             "ForConditionalGeneration Model ForSequenceClassification "
             "ForQuestionAnswering",
             bigbird_pegasus()),
      family("blenderbot-small", heads,
             {"BlenderbotSmall", 50265, 512, 2048, 16, 512, {8, 8}, 0, false, true}),
  };
  return all;
}

}  // namespace tessera
