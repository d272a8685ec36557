// SPDX-License-Identifier: Apache-2.0
// BERT and its kin.
#include "engine/model/encoder_parts.h"
#include "engine/model/family.h"

namespace tessera {
namespace {

// Whose heads a model has, and whose blocks.
enum class BertStyle { bert, roberta, distil, electra };

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
  std::int64_t hidden_default = 768, inner_default = 3072, layers_default = 12, heads_default = 12;
  const char* width = "";   // key of the tables' width, if it is not the model's
  std::int64_t narrow = 0;  // its default
  bool relative = false;    // a table of relative positions for all blocks
};

struct BertSizes {
  std::int64_t vocabulary, hidden, inner, layers, heads, positions, types, width, buckets;
  bool dropout, tied;
};

BertSizes read_bert(JsonReader& config, const BertNames& n) {
  BertSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, n.vocabulary);
  s.hidden = integer_of(config, n.hidden, 1, n.hidden_default);
  s.inner = config.integer(n.inner, 1, n.inner_default);
  s.layers = blocks_of(config, n.layers, n.layers_default);
  s.heads = heads_of(config, n.heads, n.heads_default, n.hidden, s.hidden);
  s.positions = config.integer("max_position_embeddings", 1, 512);
  s.types = words_of(n.embeddings).size() == 4 ? config.integer("type_vocab_size", 1, 2) : 0;
  s.width = n.narrow > 0 ? config.integer(n.width, 1, n.narrow) : s.hidden;
  s.buckets = n.relative ? config.integer("relative_attention_num_buckets", 32, 32) : 0;
  s.dropout = probability_of(config, n.dropout, 0.1) > 0;
  s.tied = config.boolean("tie_word_embeddings", true);
  return s;
}

class BertBuilder {
 public:
  BertBuilder(const BertNames& names, const BertSizes& sizes, const std::string& head,
              std::int64_t labels, const std::string& model_name, DType dtype)
      : n_(names),
        s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : std::string(names.base) + "."),
        w_(model_name, names.prefix + head, names.prefix, dtype) {}

  Model build() {
    name_containers();
    describe_encoder(w_.model(), s_.positions, s_.heads, s_.hidden);
    embeddings();
    const auto place = w_.model().forward.size();
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    if (s_.buckets > 0) {  // registered behind the blocks, and run before them
      auto& forward = w_.model().forward;
      forward.insert(forward.begin() + static_cast<std::ptrdiff_t>(place),
                     w_.embedding(base_ + "encoder.relative_attention_bias", s_.buckets, s_.heads,
                                  /*added=*/false));
    }
    finish();
    return w_.take();
  }

 private:
  bool distil() const { return n_.style == BertStyle::distil; }
  bool electra() const { return n_.style == BertStyle::electra; }
  const std::string& base() const { return base_; }
  std::string prefixed(const char* suffix) const { return std::string(n_.prefix) + suffix; }

  void name_containers() {
    if (!base_.empty()) w_.container(n_.base, prefixed("Model"));
    w_.container(base_ + "embeddings", prefixed("Embeddings"));
    w_.container(base_ + (distil() ? "transformer" : "encoder"),
                 prefixed(distil() ? "Transformer" : "Encoder"));
    w_.container("self", prefixed("SelfAttention"));
    w_.container("intermediate", prefixed("Intermediate"));
    w_.container("output", prefixed("Output"));
    w_.container("pooler", prefixed("Pooler"));
    w_.container("cls", prefixed("OnlyMLMHead"));
    w_.container("predictions", prefixed("LMPredictionHead"));
    w_.container("transform", prefixed("PredictionHeadTransform"));
    w_.container("lm_head", prefixed("LMHead"));
    w_.container("classifier", prefixed("ClassificationHead"));
  }

  void embeddings() {
    const std::string at = base_ + "embeddings.";
    ModuleId norm;
    std::vector<ModuleId> tables;
    for (const std::string& word : words_of(n_.embeddings)) {
      if (word == "norm") {
        norm = w_.norm(at + "LayerNorm", NormKind::layer, s_.width);
        continue;
      }
      const std::int64_t rows = word == "word"       ? s_.vocabulary
                                : word == "position" ? s_.positions
                                                     : s_.types;
      const std::string name = word == "type" ? "token_type" : word;
      tables.push_back(w_.embedding(at + name + "_embeddings", rows, s_.width, word != "word"));
    }
    for (const ModuleId id : tables) w_.runs(id);
    w_.runs(norm);
    if (s_.width != s_.hidden) {
      w_.runs(w_.linear(base_ + "embeddings_project", s_.width, s_.hidden, true));
    }
  }

  AttentionPart attention() const {
    return {.name = "attention",
            .class_name = prefixed(distil() ? "SdpaAttention" : "Attention"),
            .weights = n_.attention,
            .biases = "q k v o",
            .heads = s_.heads,
            .key_value_heads = s_.heads,
            .head_dim = s_.hidden / s_.heads,
            .rotary = false,
            .causal = false};
  }

  void block(std::int64_t number) {
    const std::string path = base_ + n_.block_list + "." + std::to_string(number);
    w_.begin_block(path, distil() ? "TransformerBlock" : prefixed("Layer"), s_.hidden);
    const bool drops = s_.dropout && !distil();  // that has none behind attention
    w_.runs(w_.attention(path + ".attention", attention(), s_.hidden, false, drops));
    MlpPart mlp{.name = "ffn",
                .class_name = "FFN",
                .weights = "lin1:u lin2:d",
                .biases = "u d",
                .inner = s_.inner};
    if (distil()) {
      w_.runs(w_.norm(path + ".sa_layer_norm", NormKind::layer, s_.hidden));
      w_.runs(w_.mlp(path + ".ffn", mlp, s_.hidden, false, s_.dropout));
      w_.runs(w_.norm(path + ".output_layer_norm", NormKind::layer, s_.hidden));
      return;
    }
    mlp.weights = "intermediate.dense:u output.dense:d";
    for (const ModuleId id : w_.mlp_halves(path, mlp, s_.hidden, s_.dropout)) w_.runs(id);
    w_.runs(w_.norm(path + ".output.LayerNorm", NormKind::layer, s_.hidden));
  }

  ModuleId dense(const std::string& path, std::int64_t out) {
    const ModuleId id = w_.linear(path, s_.hidden, out, true);
    w_.runs(id);
    return id;
  }

  // Reads the first token only.
  void pool(const std::string& path, std::int64_t out) {
    fix_length(w_.tree().module(dense(path, out)).cost, 1);
  }

  void vocabulary(const std::string& transform, const std::string& norm, const std::string& out) {
    dense(transform, s_.width);
    w_.runs(w_.norm(norm, NormKind::layer, s_.width));
    w_.runs(w_.head(out, s_.width, s_.vocabulary,
                    s_.tied ? base_ + "embeddings.word_embeddings.weight" : "", true, false,
                    /*wide=*/false));
  }

  void finish() {
    const bool bert = n_.style == BertStyle::bert;
    const bool pooled =
        head_ == "Model" ||
        (bert && (head_ == "ForSequenceClassification" || head_ == "ForMultipleChoice"));
    if (pooled && !distil() && !electra()) pool(base_ + "pooler.dense", s_.hidden);
    if (head_ == "ForMaskedLM" && bert) {
      vocabulary("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                 "cls.predictions.decoder");
    } else if (head_ == "ForMaskedLM" && electra()) {
      vocabulary("generator_predictions.dense", "generator_predictions.LayerNorm",
                 "generator_lm_head");
    } else if (head_ == "ForPreTraining") {
      dense("discriminator_predictions.dense", s_.hidden);
      dense("discriminator_predictions.dense_prediction", 1);
    } else if (head_ == "ForMaskedLM") {
      distil() ? vocabulary("vocab_transform", "vocab_layer_norm", "vocab_projector")
               : vocabulary("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder");
    } else if (head_ == "ForQuestionAnswering") {
      dense("qa_outputs", labels_);
    } else if (head_ == "ForTokenClassification") {
      dense("classifier", labels_);
    } else if (bert && head_ != "Model") {
      pool("classifier", head_ == "ForMultipleChoice" ? 1 : labels_);
    } else if (head_ == "ForSequenceClassification") {
      pool(distil() ? "pre_classifier" : "classifier.dense", s_.hidden);
      pool(distil() ? "classifier" : "classifier.out_proj", labels_);
    }
  }

  const BertNames& n_;
  const BertSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

Result<Model> build_bert(const BertNames& names, JsonReader& config, const std::string& head,
                         const std::string& name) {
  const BertSizes sizes = read_bert(config, names);
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  // Then transformers has two biases, of which one is nobody's.
  if (!sizes.tied && head == "ForMaskedLM" && names.style != BertStyle::distil) {
    config.fail("tie_word_embeddings", "is false, but this head is built with the embedding alone");
  }
  TESSERA_TRY(config.status());
  return checked(BertBuilder(names, sizes, head, labels, name, dtype).build(), config);
}

Result<Model> bert(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Bert", .base = "bert", .style = BertStyle::bert};
  return build_bert(names, config, head, name);
}

Result<Model> roberta(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Roberta",
                                   .base = "roberta",
                                   .embeddings = "word type norm position",
                                   .vocabulary = 50265};
  return build_bert(names, config, head, name);
}

// RoBERTa's classes under other names.
EncoderFamily like_roberta(const std::string& model_type, const std::string& heads,
                           const char* prefix, const char* base) {
  const BertNames names{.prefix = prefix, .base = base, .embeddings = "word type norm position"};
  return {model_type, prefix, heads,
          [names](JsonReader& config, const std::string& head, const std::string& name) {
            return build_bert(names, config, head, name);
          }};
}

Result<Model> distilbert(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "DistilBert",
                                   .base = "distilbert",
                                   .style = BertStyle::distil,
                                   .hidden = "dim|hidden_size",
                                   .inner = "hidden_dim",
                                   .layers = "n_layers|num_hidden_layers",
                                   .heads = "n_heads|num_attention_heads",
                                   .dropout = "dropout",
                                   .block_list = "transformer.layer",
                                   .embeddings = "word position norm",
                                   .attention = "q_lin:q k_lin:k v_lin:v out_lin:o",
                                   .layers_default = 6};
  return build_bert(names, config, head, name);
}

Result<Model> electra(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Electra",
                                   .base = "electra",
                                   .style = BertStyle::electra,
                                   .hidden_default = 256,
                                   .inner_default = 1024,
                                   .heads_default = 4,
                                   .width = "embedding_size",
                                   .narrow = 128};
  return build_bert(names, config, head, name);
}

Result<Model> mpnet(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "MPNet",
                                   .base = "mpnet",
                                   .embeddings = "word position norm",
                                   .attention = "attn.q:q attn.k:k attn.v:v attn.o:o LayerNorm:n",
                                   .vocabulary = 30527,
                                   .relative = true};
  return build_bert(names, config, head, name);
}

}  // namespace

const std::vector<EncoderFamily>& encoder_families() {
  const std::string text =
      "ForMaskedLM ForSequenceClassification ForTokenClassification "
      "ForQuestionAnswering Model";
  const std::string two_stacks =
      "ForConditionalGeneration Model EncoderModel ForSequenceClassification "
      "ForTokenClassification";
  static const std::vector<EncoderFamily> all = {
      {"bert", "Bert", text + " ForMultipleChoice", bert},
      {"roberta", "Roberta", text, roberta},
      like_roberta("xlm-roberta", text, "XLMRoberta", "roberta"),
      like_roberta("camembert", text, "Camembert", "roberta"),
      like_roberta("data2vec-text", text, "Data2VecText", "data2vec_text"),
      {"distilbert", "DistilBert", text, distilbert},
      {"electra", "Electra", text + " ForPreTraining", electra},
      {"mpnet", "MPNet", text, mpnet},
      {"deberta-v2", "DebertaV2", text, deberta_model},
      {"modernbert", "ModernBert", text, modernbert_model},
      {"wav2vec2", "Wav2Vec2", "ForCTC ForSequenceClassification Model", wav2vec2_model},
      {"hubert", "Hubert", "ForCTC ForSequenceClassification Model", hubert_model},
      {"t5", "T5", two_stacks, t5_model},
      {"mt5", "MT5", two_stacks, mt5_model},
      {"umt5", "UMT5", two_stacks, umt5_model},
      {"vit", "ViT", "ForImageClassification Model", vit_model},
      {"deit", "DeiT", "ForImageClassification Model ForImageClassificationWithTeacher",
       deit_model},
      {"dinov2", "Dinov2", "ForImageClassification Model", dinov2_model},
      {"clip_vision_model", "CLIPVision", "Model ModelWithProjection", clip_vision_model},
      {"siglip_vision_model", "SiglipVision", "Model", siglip_vision_model},
      {"whisper", "Whisper", "ForConditionalGeneration Model ForAudioClassification",
       whisper_model},
  };
  return all;
}

}  // namespace tessera
