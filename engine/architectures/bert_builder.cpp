// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/bert_builder.h"

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"
#include "engine/text/words.h"

namespace tessera {
namespace {

struct BertSizes {
  std::int64_t vocabulary, hidden, inner, layers, heads, positions, types, width, buckets, places,
      tasks, window;
  double kept_scores;  // as AttentionPart's
  bool dropout, tied, biased;
};

BertSizes read_bert(JsonReader& config, const BertNames& n) {
  BertSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, n.vocabulary);
  s.hidden = integer_of(config, n.hidden, 1, n.hidden_default);
  s.inner = config.integer(n.inner, 1, n.inner_default);
  s.layers = blocks_of(config, n.layers, n.layers_default);
  s.heads = heads_of(config, n.heads, n.heads_default, n.hidden, s.hidden);
  s.positions = config.integer("max_position_embeddings", 1, n.positions);
  s.types = lists(n.embeddings, "type") ? config.integer("type_vocab_size", 1, n.types) : 0;
  s.places = lists(n.embeddings, "x") ? config.integer("max_2d_position_embeddings", 1, 1024) : 0;
  const bool tasks = lists(n.embeddings, "task") && config.boolean("use_task_id", false);
  s.tasks = tasks ? config.integer("task_type_vocab_size", 1, 3) : 0;
  s.window = n.windowed ? window_of(config, s.layers) : n.blocks ? blocks_around(config) : 0;
  s.biased = *n.bias_key == '\0' || config.boolean(n.bias_key, true);
  s.width = n.narrow > 0 ? config.integer(n.width, 1, n.narrow) : s.hidden;
  s.buckets = n.relative ? config.integer("relative_attention_num_buckets", 32, 32) : 0;
  s.dropout = probability_of(config, n.dropout, 0.1) > 0;
  if (!n.fused || n.windowed) {  // windows in float32, with a mask
    const bool dropped = drops(config, "attention_probs_dropout_prob", 0.1);
    s.kept_scores = kept_scores(n.windowed, dropped) + (n.windowed ? 1 : 0);
  }
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
      forward.insert(forward.begin() + static_cast<std::ptrdiff_t>(place), relative_table());
    }
    if (*n_.last_norm != '\0') w_.runs(w_.norm(base_ + n_.last_norm, NormKind::layer, s_.hidden));
    if (n_.contacts) w_.linear(base_ + "contact_head.regression", s_.layers * s_.heads, 1, true);
    finish();
    return w_.take();
  }

 private:
  bool distil() const { return n_.style == BertStyle::distil; }
  bool electra() const { return n_.style == BertStyle::electra; }
  const std::string& base() const { return base_; }
  std::string prefixed(const char* suffix) const { return std::string(n_.prefix) + suffix; }

  // Its rows are chosen for each pair of tokens, by numbers of 8 bytes.
  ModuleId relative_table() {
    const ModuleId id = w_.embedding(base_ + "encoder.relative_attention_bias", s_.buckets,
                                     s_.heads, /*added=*/false);
    ModuleCost& cost = w_.tree().module(id).cost;
    cost.activation_bytes = {0, 0, 8};
    cost.elementwise_bytes = {0, 0, 8 + 2 * element * static_cast<double>(s_.heads)};
    return id;
  }

  void name_containers() {
    if (!base_.empty()) w_.container(n_.base, prefixed("Model"));
    w_.container(base_ + "embeddings", prefixed("Embeddings"));
    w_.container(base_ + (distil() ? "transformer" : "encoder"),
                 prefixed(distil() ? "Transformer" : "Encoder"));
    w_.container("self", prefixed("SelfAttention"));
    w_.container("intermediate", prefixed("Intermediate"));
    w_.container("output", prefixed("Output"));
    w_.container("pooler", prefixed("Pooler"));
    w_.container("cls", prefixed(head_ == "ForPreTraining"              ? "PreTrainingHeads"
                                 : head_ == "ForNextSentencePrediction" ? "OnlyNSPHead"
                                                                        : "OnlyMLMHead"));
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
        norm = w_.norm(at + n_.first_norm, NormKind::layer, s_.width);
        continue;
      }
      if (word == "task" && s_.tasks == 0) continue;
      const std::int64_t rows = word == "word"       ? s_.vocabulary
                                : word == "position" ? s_.positions
                                : word == "type"     ? s_.types
                                : word == "task"     ? s_.tasks
                                                     : s_.places;
      const std::string name = word == "type"     ? "token_type"
                               : word == "task"   ? "task_type"
                               : word.size() == 1 ? word + "_position"
                                                  : word;
      tables.push_back(w_.embedding(at + name + "_embeddings", rows, s_.width, word != "word"));
    }
    for (const ModuleId id : tables) w_.runs(id);
    if (norm.valid()) w_.runs(norm);
    if (s_.width != s_.hidden) {
      w_.runs(w_.linear(base_ + "embeddings_project", s_.width, s_.hidden, true));
    }
  }

  AttentionPart attention() const {
    return {.name = "attention",
            .class_name = prefixed(distil() ? "SdpaAttention" : "Attention"),
            .weights = n_.attention,
            .biases = s_.biased ? "q k v p o" : "o",
            .heads = s_.heads,
            .key_value_heads = s_.heads,
            .head_dim = s_.hidden / s_.heads,
            .rotary = n_.rotary,
            .causal = false,
            .kept_scores = s_.kept_scores};
  }

  void block(std::int64_t number) {
    const std::string path = base_ + n_.block_list + "." + std::to_string(number);
    w_.begin_block(path, distil() ? "TransformerBlock" : prefixed("Layer"), s_.hidden);
    const bool drops = s_.dropout && !distil();  // that has none behind attention
    const ModuleId attends =
        w_.attention(path + ".attention", attention(), s_.hidden, false, drops);
    ModuleCost& cost = w_.tree().module(attends).cost;
    n_.windowed ? keep_chunks(cost, s_.window, s_.hidden) : keep_window(cost, s_.window);
    w_.runs(attends);
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
    if (*n_.before_mlp != '\0') return normed_mlp(path, mlp);
    for (const ModuleId id : w_.mlp_halves(path, mlp, s_.hidden, s_.dropout)) w_.runs(id);
    w_.runs(w_.norm(path + ".output.LayerNorm", NormKind::layer, s_.hidden));
  }

  void normed_mlp(const std::string& path, const MlpPart& mlp) {
    const auto norm = [&] {
      return w_.norm(path + "." + n_.before_mlp, NormKind::layer, s_.hidden);
    };
    const ModuleId early = n_.late_norm ? ModuleId() : norm();
    const auto halves = w_.mlp_halves(path, mlp, s_.hidden, s_.dropout);
    w_.runs(n_.late_norm ? norm() : early);
    for (const ModuleId id : halves) w_.runs(id);
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
    const bool predicts_as_bert = bert || n_.style == BertStyle::big_bird;
    const bool pooled =
        head_ == "Model" ||
        (bert && (head_ == "ForSequenceClassification" || head_ == "ForMultipleChoice" ||
                  head_ == "ForPreTraining" || head_ == "ForNextSentencePrediction"));
    const bool has_pooler = n_.always_pools || (pooled && !distil() && !electra());
    if (has_pooler) pool(base_ + n_.pooler, s_.hidden);
    if (bert && head_ == "ForNextSentencePrediction") {
      pool("cls.seq_relationship", 2);
    } else if (predicts_as_bert && (head_ == "ForMaskedLM" || head_ == "ForPreTraining")) {
      vocabulary("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                 "cls.predictions.decoder");
      if (head_ == "ForPreTraining") pool("cls.seq_relationship", 2);
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

}  // namespace

Result<Model> build_bert(const BertNames& names, JsonReader& config, const std::string& head,
                         const std::string& name) {
  const BertSizes sizes = read_bert(config, names);
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  // Then transformers has two biases, of which one is nobody's.
  const bool predicts = head == "ForMaskedLM" || head == "ForPreTraining";
  const bool electra = names.style == BertStyle::electra && head == "ForPreTraining";
  if (!sizes.tied && predicts && !electra && names.style != BertStyle::distil) {
    config.fail("tie_word_embeddings", "is false, but this head is built with the embedding alone");
  }
  TESSERA_TRY(config.status());
  return checked(BertBuilder(names, sizes, head, labels, name, dtype).build(), config);
}

}  // namespace tessera
