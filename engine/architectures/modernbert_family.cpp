// SPDX-License-Identifier: Apache-2.0
// ModernBERT (arXiv 2412.13663): norms in front, gates, rotation, and windows in two of three
// blocks.
#include <fmt/format.h>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

struct ModernSizes {
  std::int64_t vocabulary, hidden, inner, layers, heads, positions;
  std::vector<std::int64_t> windows = {};  // by block, to either side; 0: none
  bool norm_bias, attention_bias, mlp_bias, decoder_bias, classifier_bias, dropout, tied;
};

void read_windows(JsonReader& config, ModernSizes& s) {
  const std::int64_t width = config.integer("local_attention", 2, 128) / 2;
  const std::int64_t every = config.integer("global_attn_every_n_layers", 1, 3);
  if (!config.status().ok()) return;
  std::vector<bool> full;
  for (std::int64_t k = 0; k < s.layers; ++k) full.push_back(k % every == 0);
  read_full_blocks(config, full);
  for (const bool all : full) s.windows.push_back(all ? 0 : width);
}

ModernSizes read_modern(JsonReader& config) {
  ModernSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, 50368);
  s.hidden = config.integer("hidden_size", 1, 768);
  s.inner = config.integer("intermediate_size", 1, 1152);
  s.layers = blocks_of(config, "num_hidden_layers", 22);
  s.heads = heads_of(config, "num_attention_heads", 12, "hidden_size", s.hidden);
  s.positions = config.integer("max_position_embeddings", 1, 8192);
  s.norm_bias = config.boolean("norm_bias", false);
  s.attention_bias = config.boolean("attention_bias", false);
  s.mlp_bias = config.boolean("mlp_bias", false);
  s.decoder_bias = config.boolean("decoder_bias", true);
  s.classifier_bias = config.boolean("classifier_bias", false);
  s.dropout = probability_of(config, "mlp_dropout", 0) > 0;
  s.tied = config.boolean("tie_word_embeddings", true);
  const std::string pooling = config.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") {
    config.fail("classifier_pooling", "must be cls or mean");
  }
  if (s.hidden / s.heads % 2 != 0) {
    config.fail("num_attention_heads", fmt::format("{} leave heads of an odd width: they are "
                                                   "rotated by pairs of elements",
                                                   s.heads));
  }
  read_windows(config, s);
  return s;
}

class ModernBuilder {
 public:
  ModernBuilder(const ModernSizes& sizes, const std::string& head, std::int64_t labels,
                const std::string& name, DType dtype)
      : s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : "model."),
        w_(name, "ModernBert" + head, "ModernBert", dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.positions, s_.heads, s_.hidden);
    w_.container("model", "ModernBertModel");
    w_.container("embeddings", "ModernBertEmbeddings");
    w_.container("head", "ModernBertPredictionHead");
    w_.runs(w_.embedding(base_ + "embeddings.tok_embeddings", s_.vocabulary, s_.hidden, false));
    w_.runs(norm(base_ + "embeddings.norm"));
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    w_.runs(norm(base_ + "final_norm"));
    if (head_ != "Model") finish();
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  ModuleId norm(const std::string& path) {
    return w_.norm(path, s_.norm_bias ? NormKind::layer : NormKind::layer_bare, s_.hidden);
  }

  void block(std::int64_t number) {
    const std::string path = base_ + "layers." + std::to_string(number);
    w_.begin_block(path, "ModernBertEncoderLayer", s_.hidden);
    if (number > 0) w_.runs(norm(path + ".attn_norm"));  // the embedding is normed already
    const AttentionPart part{.weights = "Wqkv:qkv Wo:o",
                             .biases = s_.attention_bias ? "qkv o" : "",
                             .heads = s_.heads,
                             .key_value_heads = s_.heads,
                             .head_dim = s_.hidden / s_.heads,
                             .causal = false};
    const ModuleId attention = w_.attention(path + ".attn", part, s_.hidden, false, false);
    cost(attention).attention.window = s_.windows[static_cast<std::size_t>(number)];
    w_.runs(attention);
    w_.runs(norm(path + ".mlp_norm"));
    const MlpPart mlp{
        .weights = "Wi:gu Wo:d", .biases = s_.mlp_bias ? "gu d" : "", .inner = s_.inner};
    w_.runs(w_.mlp(path + ".mlp", mlp, s_.hidden, false, s_.dropout));
  }

  void finish() {
    std::vector<ModuleId> last = {w_.linear("head.dense", s_.hidden, s_.hidden, s_.classifier_bias),
                                  norm("head.norm")};
    if (head_ == "ForMaskedLM") {
      const std::string table = s_.tied ? "model.embeddings.tok_embeddings.weight" : "";
      last.push_back(w_.head("decoder", s_.hidden, s_.vocabulary, table, s_.decoder_bias, false));
    } else {
      last.push_back(w_.linear("classifier", s_.hidden, labels_, true));
    }
    for (const ModuleId id : last) {
      if (head_ == "ForSequenceClassification") fix_length(cost(id), 1);
      w_.runs(id);
    }
  }

  const ModernSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> modernbert_model(JsonReader& config, const std::string& head,
                               const std::string& name) {
  return built<ModernBuilder>(config, head, name, read_modern(config));
}

}  // namespace tessera
