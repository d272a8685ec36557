// SPDX-License-Identifier: Apache-2.0
// DeBERTa (arXiv 2006.03654), v2 and v3 (arXiv 2111.09543): what is at a place and how far away it
// is are compared by matmuls of their own.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

// The first version projects queries, keys and values at once, and knows distances up to the length
// of the sequence.
struct DebertaVersion {
  bool first = false;
  const char* prefix = "DebertaV2";
  std::int64_t vocabulary = 128100, hidden = 1536, inner = 6144, blocks = 24;
};

struct DebertaSizes {
  DebertaVersion version;
  std::int64_t vocabulary, hidden, inner, layers, heads, positions, types, width;
  std::int64_t distances = 0;  // rows of the table of relative positions, 0: none
  std::int64_t kernel = 0, groups = 1;
  bool dropout, tied, legacy;
  bool content_to_position = false, position_to_content = false, shared_keys, placed, normed;

  double kept_scores;  // as AttentionPart's

  int kinds() const { return (content_to_position ? 1 : 0) + (position_to_content ? 1 : 0); }
};

// "c2p|p2c", or a list of both.
void read_kinds(JsonReader& config, DebertaSizes& s) {
  const char* key = "pos_att_type";
  if (!config.has(key)) return;
  nlohmann::json kinds = config.json()[key];
  if (kinds.is_string()) {
    const std::string text = config.text(key, "");
    const auto bar = text.find('|');
    kinds = nlohmann::json::array({text.substr(0, bar)});
    if (bar != std::string::npos) kinds.push_back(text.substr(bar + 1));
  }
  const auto known = [](const nlohmann::json& kind) { return kind == "c2p" || kind == "p2c"; };
  if (!kinds.is_array() || !std::all_of(kinds.begin(), kinds.end(), known)) {
    return config.fail(key, "must be a list of \"c2p\" and \"p2c\", or both with | between them");
  }
  s.content_to_position = std::find(kinds.begin(), kinds.end(), "c2p") != kinds.end();
  s.position_to_content = std::find(kinds.begin(), kinds.end(), "p2c") != kinds.end();
}

// -1 is none, as 0.
std::int64_t span(JsonReader& config, const char* key) {
  constexpr std::int64_t most = 1'000'000;
  const bool none = config.has(key) && config.json()[key] == -1;
  const std::int64_t given = none ? 0 : config.integer(key, 0, 0);
  if (given > most) config.fail(key, fmt::format("is {}, more than {}", given, most));
  return std::min(given, most);
}

void read_relative(JsonReader& config, DebertaSizes& s) {
  const std::int64_t longest = span(config, "max_relative_positions");
  const std::int64_t buckets = s.version.first ? 0 : span(config, "position_buckets");
  read_kinds(config, s);
  s.shared_keys = !s.version.first && config.boolean("share_att_key", false);
  if (!config.boolean("relative_attention", false)) {
    s.content_to_position = s.position_to_content = false;
    return;
  }
  if (s.version.first && longest > 0 && longest < s.positions) {
    config.fail("max_relative_positions",
                fmt::format("is {}, less than max_position_embeddings {}: costs are known for the "
                            "same or more",
                            longest, s.positions));
  }
  s.distances = 2 * (buckets > 0 ? buckets : longest > 0 ? longest : s.positions);
}

// What only later versions have.
void read_later(JsonReader& config, DebertaSizes& s) {
  s.normed = config.text("norm_rel_ebd", "none").find("layer_norm") != std::string::npos;
  s.kernel = config.integer("conv_kernel_size", 0, 0);
  s.groups = config.integer("conv_groups", 1, 1);
  if (s.kernel > 0 && (s.kernel % 2 == 0 || s.kernel > 1'000'000)) {
    config.fail("conv_kernel_size", fmt::format("is {}: it must be odd, or 0", s.kernel));
  }
  if (s.hidden % s.groups != 0) {
    config.fail("conv_groups",
                fmt::format("{} does not divide hidden_size {}", s.groups, s.hidden));
  }
}

DebertaSizes read_deberta(const DebertaVersion& version, JsonReader& config,
                          const std::string& head) {
  DebertaSizes s{};
  s.version = version;
  s.vocabulary = config.integer("vocab_size", 1, version.vocabulary);
  s.hidden = config.integer("hidden_size", 1, version.hidden);
  s.inner = config.integer("intermediate_size", 1, version.inner);
  s.layers = blocks_of(config, "num_hidden_layers", version.blocks);
  s.heads = heads_of(config, "num_attention_heads", version.blocks, "hidden_size", s.hidden);
  s.positions = config.integer("max_position_embeddings", 1, 512);
  s.types = config.integer("type_vocab_size", 0, 0);
  s.width = config.integer("embedding_size", 1, s.hidden);
  s.kept_scores = kept_scores(false, drops(config, "attention_probs_dropout_prob", 0.1));
  s.placed = config.boolean("position_biased_input", true);
  if (!version.first) read_later(config, s);
  if (version.first && config.boolean("talking_head", false)) {
    config.fail("talking_head", "is true, but heads that mix are not built");
  }
  for (const char* key : {"attention_head_size", "pooler_hidden_size"}) {
    const std::int64_t even = *key == 'a' ? s.hidden / s.heads : s.hidden;
    if (config.integer(key, 1, even) == even) continue;
    config.fail(key, fmt::format("must be {}, which alone is built", even));
  }
  s.dropout = probability_of(config, "hidden_dropout_prob", 0.1) > 0;
  s.tied = config.boolean("tie_word_embeddings", true);
  s.legacy = config.boolean("legacy", true);
  if (head == "ForMaskedLM" && !(s.tied && s.legacy)) {
    config.fail(s.tied ? "legacy" : "tie_word_embeddings",
                "is false, but the head of masked tokens is built with the embedding alone");
  }
  read_relative(config, s);
  return s;
}

class DebertaBuilder {
 public:
  DebertaBuilder(const DebertaSizes& sizes, const std::string& head, std::int64_t labels,
                 const std::string& name, DType dtype)
      : s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : "deberta."),
        w_(name, sizes.version.prefix + head, sizes.version.prefix, dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.positions, s_.heads, s_.hidden);
    for (const auto& [name, part] : {std::pair{"deberta", "Model"},
                                     {"embeddings", "Embeddings"},
                                     {"encoder", "Encoder"},
                                     {"self", s_.version.first ? "" : "SelfAttention"},
                                     {"intermediate", "Intermediate"},
                                     {"output", "Output"},
                                     {"pooler", "Pooler"},
                                     {"cls", "OnlyMLMHead"},
                                     {"predictions", "LMPredictionHead"},
                                     {"transform", "PredictionHeadTransform"},
                                     {"conv", "ConvLayer"}}) {
      w_.container(name, *part == '\0' ? "DisentangledSelfAttention" : w_.prefix() + part);
    }
    embeddings();
    auto& forward = w_.model().forward;
    const auto place = static_cast<std::ptrdiff_t>(forward.size());
    std::ptrdiff_t second = 0;
    for (std::int64_t k = 0; k < s_.layers; ++k) {
      block(k);
      if (k == 0) second = static_cast<std::ptrdiff_t>(forward.size());
    }
    const std::vector<ModuleId> table = distances();
    const std::vector<ModuleId> between = convolution();
    // Registered behind the blocks: what runs behind the first of them, and before all.
    forward.insert(forward.begin() + second, between.begin(), between.end());
    forward.insert(forward.begin() + place, table.begin(), table.end());
    finish();
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  void embeddings() {
    const std::string at = base_ + "embeddings.";
    w_.runs(w_.embedding(at + "word_embeddings", s_.vocabulary, s_.width, false));
    if (s_.placed) {
      w_.runs(w_.embedding(at + "position_embeddings", s_.positions, s_.width, true));
    }
    if (s_.types > 0) {
      w_.runs(w_.embedding(at + "token_type_embeddings", s_.types, s_.width, true));
    }
    if (s_.width != s_.hidden) w_.runs(w_.linear(at + "embed_proj", s_.width, s_.hidden, false));
    run_norm(at + "LayerNorm");
  }

  std::vector<ModuleId> distances() {
    std::vector<ModuleId> out;
    if (s_.distances > 0) {
      out.push_back(w_.embedding(base_ + "encoder.rel_embeddings", s_.distances, s_.hidden, false));
    }
    if (s_.normed) out.push_back(w_.norm(base_ + "encoder.LayerNorm", NormKind::layer, s_.hidden));
    for (const ModuleId id : out) fix_length(cost(id), s_.distances);
    return out;
  }

  std::vector<ModuleId> convolution() {
    if (s_.kernel == 0) return {};
    const std::string at = base_ + "encoder.conv";
    w_.enter(at);
    const ModuleId id = w_.tree().open("conv", "Conv1d");
    w_.tree().parameter("weight", {s_.hidden, s_.hidden / s_.groups, s_.kernel});
    w_.tree().parameter("bias", {s_.hidden});
    w_.tree().close();
    cost(id) = linear_cost({s_.hidden / s_.groups * s_.kernel, s_.hidden});
    cost(id).activation_bytes = per_token(3 * element * static_cast<double>(s_.hidden));
    return {id, w_.norm(at + ".LayerNorm", NormKind::layer, s_.hidden)};
  }

  // The first version's norms are written out, in float32.
  void keep_wide(ModuleCost& norm) const {
    if (!s_.version.first) return;
    norm.activation_bytes.linear += 8 * static_cast<double>(s_.hidden);
    norm.elementwise_bytes.linear += 32 * static_cast<double>(s_.hidden);
  }

  void run_norm(const std::string& path) {
    const ModuleId id = w_.norm(path, NormKind::layer, s_.hidden);
    keep_wide(cost(id));
    w_.runs(id);
  }

  // Distances are projected in every block, and compared with queries and with keys.
  void add_distances(ModuleId id) {
    ModuleCost& c = cost(id);
    const auto h = static_cast<double>(s_.hidden);
    const auto rows = static_cast<double>(s_.distances);
    const int projections = s_.shared_keys && s_.distances > 0 ? 2 : s_.kinds();
    const auto heads = static_cast<double>(s_.heads);
    c.elementwise_bytes.quadratic += heads * element * 4 * s_.kinds();
    c.attention.heads = 0;
    if (s_.version.first) {  // twice as many as tokens, of a table that each block drops out anew
      const double kept = element + (s_.dropout ? 1 : 0);
      if (s_.kinds() > 0) c.activation_bytes.constant += kept * rows * h;
      c.activation_bytes.linear += 2 * element * h;  // queries and values with their biases
      keep_wide(c);
      c.matmul_flops.linear += 4 * projections * h * h;
      c.attention_flops.quadratic += 4 * s_.kinds() * h;
      c.activation_bytes.linear += 2 * element * projections * h;
      c.activation_bytes.quadratic += 2 * element * s_.kinds() * heads;
      return;
    }
    // Queries or keys as they are scaled for distances.
    if (s_.kinds() > 0) c.activation_bytes.linear += element * h;
    c.matmul_flops.constant += 2 * projections * rows * h * h;
    c.attention_flops.linear += 2 * s_.kinds() * rows * h;
    c.activation_bytes.constant += element * projections * rows * h;
    c.activation_bytes.linear += element * s_.kinds() * heads * rows;  // scores of each distance
  }

  AttentionPart attention() const {
    AttentionPart part{.weights = "self.query_proj:q self.key_proj:k self.value_proj:v",
                       .biases = "q k v o p",
                       .heads = s_.heads,
                       .key_value_heads = s_.heads,
                       .head_dim = s_.hidden / s_.heads,
                       .rotary = false,
                       .causal = false,
                       .kept_scores = s_.kept_scores,
                       .kept_pairs = 1 + 8.0 * s_.kinds()};  // a mask, and which distance it is
    const bool first = s_.version.first;
    if (first) {
      part.weights = "self.q_bias:w self.v_bias:w self.in_proj:qkv";
      part.biases = "o pb";
    }
    if (!s_.shared_keys && s_.content_to_position) {
      part.weights += first ? " self.pos_proj:p" : " self.pos_key_proj:p";
    }
    if (!s_.shared_keys && s_.position_to_content) {
      part.weights += first ? " self.pos_q_proj:pb" : " self.pos_query_proj:p";
    }
    part.weights += " output.dense:o output.LayerNorm:n";
    return part;
  }

  void block(std::int64_t number) {
    const std::string path = base_ + "encoder.layer." + std::to_string(number);
    w_.begin_block(path, w_.prefix() + "Layer", s_.hidden);
    const ModuleId id =
        w_.attention(path + ".attention", attention(), s_.hidden, false, s_.dropout);
    add_distances(id);
    w_.runs(id);
    const MlpPart mlp{
        .weights = "intermediate.dense:u output.dense:d", .biases = "u d", .inner = s_.inner};
    for (const ModuleId half : w_.mlp_halves(path, mlp, s_.hidden, s_.dropout)) w_.runs(half);
    run_norm(path + ".output.LayerNorm");
  }

  // Reads the first token only.
  void pool(const std::string& path, std::int64_t out) {
    run_on_one_token(w_, path, s_.hidden, out);
  }

  void finish() {
    if (head_ == "ForMaskedLM") {
      const std::string at = "cls.predictions.";
      w_.runs(w_.linear(at + "transform.dense", s_.hidden, s_.width, true));
      w_.runs(w_.norm(at + "transform.LayerNorm", NormKind::layer, s_.width));
      w_.runs(w_.head(at + "decoder", s_.width, s_.vocabulary,
                      base_ + "embeddings.word_embeddings.weight", true, false, /*wide=*/false));
    } else if (head_ == "ForSequenceClassification") {
      pool("pooler.dense", s_.hidden);
      pool("classifier", labels_);
    } else if (head_ != "Model") {
      const bool answers = head_ == "ForQuestionAnswering";
      w_.runs(w_.linear(answers ? "qa_outputs" : "classifier", s_.hidden, labels_, true));
    }
  }

  const DebertaSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

Result<Model> build_deberta(const DebertaVersion& version, JsonReader& config,
                            const std::string& head, const std::string& name) {
  return built<DebertaBuilder>(config, head, name, read_deberta(version, config, head));
}

}  // namespace

Result<Model> deberta_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_deberta({}, config, head, name);
}

Result<Model> first_deberta_model(JsonReader& config, const std::string& head,
                                  const std::string& name) {
  return build_deberta({.first = true,
                        .prefix = "Deberta",
                        .vocabulary = 50265,
                        .hidden = 768,
                        .inner = 3072,
                        .blocks = 12},
                       config, head, name);
}

}  // namespace tessera
