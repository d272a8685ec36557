// SPDX-License-Identifier: Apache-2.0
// BART (arXiv 1910.13461) and its kin: encoders with decoders that differ in where norms are and in
// how positions are known.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/bart_sizes.h"
#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

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
        run_on_one_token(w_, std::string("classification_head.") + name, s_.hidden, out);
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
        .kept_scores = s_.kept_scores[side]};
    const ModuleId id = w_.attention(path, part, s_.hidden, false, s_.dropout);
    if (!encodes) return id;
    ModuleCost& cost = w_.tree().module(id).cost;
    kind_.long_input ? keep_chunks(cost, s_.window, s_.hidden) : keep_window(cost, s_.window);
    return id;
  }

  // An MLP, or experts.
  std::vector<ModuleId> widen(const std::string& path, int side, bool chosen) {
    const MlpPart mlp{
        .weights = "fc1:u fc2:d", .biases = "u d", .inner = s_.inner[side], .relu = s_.relu};
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
                        .bias = true,
                        .relu = s_.relu},
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
            Model model = BartBuilder(kind, sizes, head, labels, name, dtype).build();
            if (kind.global) add_note(model, fused_if_asked_note(kind.prefix, sizes.heads[0]));
            return checked(std::move(model), config);
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
  kind.fused = false;
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
  kind.fused = false;
  kind.blocks = true;
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
  kind.activation = "relu";
  kind.scaled = true;
  kind.fused = false;
  return kind;
}

BartKind m2m() {
  BartKind kind{"M2M100", 128112, 1024, 4096, 16, 1024, {12, 12}, -1, true};
  kind.activation = "relu";
  return kind;
}

BartKind nllb() {
  BartKind kind = m2m();
  kind.prefix = "NllbMoe";
  kind.routed = true;
  kind.fused = false;
  kind.scaled = true;
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
      family("m2m_100", "ForConditionalGeneration Model", m2m()),
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
