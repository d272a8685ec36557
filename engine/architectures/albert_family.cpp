// SPDX-License-Identifier: Apache-2.0
// ALBERT (arXiv 1909.11942): a few layers, each of which runs many times.
#include <fmt/format.h>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

struct AlbertSizes {
  std::int64_t vocabulary, width, hidden, inner, layers, groups, group_layers, heads, positions,
      types;
  bool dropout;
};

AlbertSizes read_albert(JsonReader& config) {
  AlbertSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, 30000);
  s.width = config.integer("embedding_size", 1, 128);
  s.hidden = config.integer("hidden_size", 1, 4096);
  s.inner = config.integer("intermediate_size", 1, 16384);
  s.layers = blocks_of(config, "num_hidden_layers", 12);
  s.groups = blocks_of(config, "num_hidden_groups", 1);
  s.group_layers = blocks_of(config, "inner_group_num", 1);
  s.heads = heads_of(config, "num_attention_heads", 64, "hidden_size", s.hidden);
  s.positions = config.integer("max_position_embeddings", 1, 512);
  s.types = config.integer("type_vocab_size", 1, 2);
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
  if (!config.boolean("tie_word_embeddings", true)) {
    config.fail("tie_word_embeddings", "is false, but this head is built with the embedding alone");
  }
  constexpr std::int64_t most = 100'000;
  if (s.groups * s.group_layers > most || s.layers * s.group_layers > most) {
    config.fail("inner_group_num", fmt::format("makes more than {} layers", most));
  }
  return s;
}

class AlbertBuilder {
 public:
  AlbertBuilder(const AlbertSizes& sizes, const std::string& head, std::int64_t labels,
                const std::string& name, DType dtype)
      : s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : "albert."),
        w_(name, "Albert" + head, "Albert", dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.positions, s_.heads, s_.hidden);
    w_.container("albert", "AlbertModel");
    w_.container(base_ + "embeddings", "AlbertEmbeddings");
    w_.container(base_ + "encoder", "AlbertTransformer");
    w_.container("predictions", "AlbertMLMHead");
    embeddings();
    std::vector<std::vector<ModuleId>> groups;  // what each runs
    for (std::int64_t k = 0; k < s_.groups; ++k) groups.push_back(group(k));
    for (std::int64_t k = 0; k < s_.layers; ++k) {
      const auto number = static_cast<std::size_t>(k * s_.groups / s_.layers);
      for (const ModuleId id : groups[number]) w_.runs(id);
    }
    finish();
    return w_.take();
  }

 private:
  void embeddings() {
    const std::string at = base_ + "embeddings.";
    const auto table = [&](const char* name, std::int64_t rows, bool added) {
      w_.runs(w_.embedding(at + name + "_embeddings", rows, s_.width, added));
    };
    table("word", s_.vocabulary, false);
    table("position", s_.positions, true);
    table("token_type", s_.types, true);
    w_.runs(w_.norm(at + "LayerNorm", NormKind::layer, s_.width));
    w_.runs(w_.linear(base_ + "encoder.embedding_hidden_mapping_in", s_.width, s_.hidden, true));
  }

  std::vector<ModuleId> group(std::int64_t number) {
    const std::string at = fmt::format("{}encoder.albert_layer_groups.{}", base_, number);
    w_.container(at, "AlbertLayerGroup");
    std::vector<ModuleId> out;
    for (std::int64_t k = 0; k < s_.group_layers; ++k) {
      const std::string path = fmt::format("{}.albert_layers.{}", at, k);
      w_.begin_block(path, "AlbertLayer", s_.hidden);
      const ModuleId last = w_.norm(path + ".full_layer_layer_norm", NormKind::layer, s_.hidden);
      const AttentionPart part{.name = "attention",
                               .weights = "query:q key:k value:v dense:o LayerNorm:n",
                               .biases = "q k v o",
                               .heads = s_.heads,
                               .key_value_heads = s_.heads,
                               .head_dim = s_.hidden / s_.heads,
                               .rotary = false,
                               .causal = false};
      out.push_back(w_.attention(path + ".attention", part, s_.hidden, false, s_.dropout));
      const MlpPart mlp{.weights = "ffn:u ffn_output:d", .biases = "u d", .inner = s_.inner};
      for (const ModuleId id : w_.mlp_halves(path, mlp, s_.hidden, false)) out.push_back(id);
      out.push_back(last);
    }
    return out;
  }

  void pool(const std::string& path, std::int64_t out) {
    run_on_one_token(w_, path, s_.hidden, out);
  }

  void finish() {
    const bool chooses = head_ == "ForMultipleChoice";
    if (head_ == "Model" || head_ == "ForSequenceClassification" || chooses) {
      pool(base_ + "pooler", s_.hidden);
    }
    if (head_ == "ForMaskedLM") {
      const ModuleId norm = w_.norm("predictions.LayerNorm", NormKind::layer, s_.width);
      w_.runs(w_.linear("predictions.dense", s_.hidden, s_.width, true));
      w_.runs(norm);
      w_.runs(w_.head("predictions.decoder", s_.width, s_.vocabulary,
                      base_ + "embeddings.word_embeddings.weight", true, false, /*wide=*/false));
    } else if (head_ == "ForSequenceClassification" || chooses) {
      pool("classifier", chooses ? 1 : labels_);
    } else if (head_ != "Model") {
      const bool answers = head_ == "ForQuestionAnswering";
      w_.runs(w_.linear(answers ? "qa_outputs" : "classifier", s_.hidden, labels_, true));
    }
  }

  const AlbertSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> albert_model(JsonReader& config, const std::string& head, const std::string& name) {
  const AlbertSizes sizes = read_albert(config);
  return built<AlbertBuilder>(config, head, name, sizes);
}

}  // namespace tessera
