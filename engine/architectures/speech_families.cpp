// SPDX-License-Identifier: Apache-2.0
// wav2vec 2.0 (arXiv 2006.11477) and HuBERT: convolutions make frames of sound, and a token of a
// sequence is a frame (20 ms by the published strides).
#include <fmt/format.h>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

struct SpeechKind {
  std::string prefix, base;
};

// A convolution, and how many outputs it has: `rate` for each frame, and `edge`.
struct Strides {
  std::int64_t in, out, kernel;
  double rate = 1, edge = 0;
};

struct SpeechSizes {
  std::int64_t vocabulary, hidden, inner, layers, heads, kernel, groups, projection;
  std::vector<Strides> convolutions = {};
  bool conv_bias, normed_layers, stable, masked, dropout, normed_features = true;
};

std::vector<std::int64_t> numbers(JsonReader& config, const char* key,
                                  std::vector<std::int64_t> otherwise) {
  if (!config.has(key)) return otherwise;
  constexpr std::size_t most = 64;
  constexpr std::int64_t largest = 1'000'000;
  const nlohmann::json& list = config.json()[key];
  bool good = list.is_array() && !list.empty() && list.size() <= most;
  std::vector<std::int64_t> out;
  for (std::size_t k = 0; good && k < list.size(); ++k) {
    good = list[k].is_number_integer() && list[k] >= 1 && list[k] <= largest;
    if (good) out.push_back(list[k].get<std::int64_t>());
  }
  if (good) return out;
  config.fail(key, "must be a list of numbers, one for each convolution");
  return otherwise;
}

void read_convolutions(JsonReader& config, SpeechSizes& s) {
  const auto widths = numbers(config, "conv_dim", std::vector<std::int64_t>(7, 512));
  const auto kernels = numbers(config, "conv_kernel", {10, 3, 3, 3, 3, 2, 2});
  const auto strides = numbers(config, "conv_stride", {5, 2, 2, 2, 2, 2, 2});
  if (kernels.size() != widths.size() || strides.size() != widths.size()) {
    return config.fail("conv_dim", "conv_kernel and conv_stride must be lists of one length");
  }
  const auto count = static_cast<std::int64_t>(widths.size());
  if (config.integer("num_feat_extract_layers", 1, count) != count) {
    config.fail("num_feat_extract_layers", fmt::format("must be {}, as conv_dim says", count));
  }
  for (std::size_t k = 0; k < widths.size(); ++k) {
    s.convolutions.push_back({k == 0 ? 1 : widths[k - 1], widths[k], kernels[k]});
  }
  for (std::size_t k = widths.size(); k-- > 1;) {
    const Strides& later = s.convolutions[k];
    const auto stride = static_cast<double>(strides[k]);
    s.convolutions[k - 1].rate = later.rate * stride;
    s.convolutions[k - 1].edge = (later.edge - 1) * stride + static_cast<double>(later.kernel);
  }
}

SpeechSizes read_speech(JsonReader& config, const SpeechKind& kind) {
  SpeechSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, 32);
  s.hidden = config.integer("hidden_size", 1, 768);
  s.inner = config.integer("intermediate_size", 1, 3072);
  s.layers = blocks_of(config, "num_hidden_layers", 12);
  s.heads = heads_of(config, "num_attention_heads", 12, "hidden_size", s.hidden);
  s.kernel = config.integer("num_conv_pos_embeddings", 1, 128);
  s.groups = config.integer("num_conv_pos_embedding_groups", 1, 16);
  s.projection = config.integer("classifier_proj_size", 1, 256);
  if (s.hidden % s.groups != 0) {
    config.fail("num_conv_pos_embedding_groups",
                fmt::format("{} does not divide hidden_size {}", s.groups, s.hidden));
  }
  const std::string norm = config.text("feat_extract_norm", "group");
  if (norm != "group" && norm != "layer") {
    config.fail("feat_extract_norm", "must be group or layer");
  }
  s.normed_layers = norm == "layer";
  s.conv_bias = config.boolean("conv_bias", false);
  s.stable = config.boolean("do_stable_layer_norm", false);
  s.dropout = probability_of(config, "hidden_dropout", 0.1) > 0;
  const double in_time = probability_of(config, "mask_time_prob", 0.05);
  s.masked = probability_of(config, "mask_feature_prob", 0) > 0 || in_time > 0;
  const bool hubert = kind.prefix == "Hubert";
  if (hubert) s.normed_features = config.boolean("feat_proj_layer_norm", true);
  for (const char* key : {"add_adapter", "use_weighted_layer_sum", "conv_pos_batch_norm"}) {
    if (!hubert && std::string_view(key) == "conv_pos_batch_norm") continue;
    if (!config.boolean(key, false)) continue;
    config.fail(key, "is true, but its layers are not built: describe it as a module tree");
  }
  if (config.has("adapter_attn_dim")) {
    config.fail("adapter_attn_dim", "is given, but adapters are not built: leave it out");
  }
  read_convolutions(config, s);
  return s;
}

class SpeechBuilder {
 public:
  SpeechBuilder(const SpeechKind& kind, const SpeechSizes& sizes, const std::string& head,
                std::int64_t labels, const std::string& name, DType dtype)
      : kind_(kind),
        s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : kind.base + "."),
        w_(name, kind.prefix + head, kind.prefix, dtype) {}

  Model build() {
    describe_encoder(w_.model(), 0, s_.heads, s_.hidden);
    w_.container(kind_.base, kind_.prefix + "Model");
    w_.container("feature_extractor", kind_.prefix + "FeatureEncoder");
    w_.container("feature_projection", kind_.prefix + "FeatureProjection");
    w_.container("encoder", kind_.prefix + (s_.stable ? "EncoderStableLayerNorm" : "Encoder"));
    w_.container("pos_conv_embed", kind_.prefix + "PositionalConvEmbedding");
    w_.container("feed_forward", kind_.prefix + "FeedForward");
    if (s_.masked) {
      w_.enter(base_.empty() ? "" : kind_.base);
      w_.tree().parameter("masked_spec_embed", {s_.hidden});
    }
    for (std::size_t k = 0; k < s_.convolutions.size(); ++k) convolution(k);
    project();
    positions();
    const ModuleId norm = w_.norm(base_ + "encoder.layer_norm", NormKind::layer, s_.hidden);
    if (!s_.stable) w_.runs(norm);
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    if (s_.stable) w_.runs(norm);
    finish();
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  void convolution(std::size_t number) {
    const Strides& c = s_.convolutions[number];
    const bool normed = s_.normed_layers || number == 0;
    const std::string list = base_ + "feature_extractor.conv_layers";
    w_.enter(list);
    const std::string kind = s_.normed_layers ? "LayerNorm" : normed ? "GroupNorm" : "NoLayerNorm";
    TreeBuilder& tree = w_.tree();
    const ModuleId id = tree.open(std::to_string(number), kind_.prefix + kind + "ConvLayer");
    tree.open("conv", "Conv1d");
    tree.parameter("weight", {c.out, c.in, c.kernel});
    if (s_.conv_bias) tree.parameter("bias", {c.out});
    tree.close();
    if (normed) {
      tree.open("layer_norm", s_.normed_layers ? "LayerNorm" : "GroupNorm");
      tree.parameter("weight", {c.out});
      tree.parameter("bias", {c.out});
      tree.close();
    }
    tree.close();
    const auto out = static_cast<double>(c.out);
    const double products = 2 * static_cast<double>(c.in) * static_cast<double>(c.kernel) * out;
    const double kept = element * out * (normed ? 3 : 2);  // of the norm, the activation, the next
    cost(id).matmul_flops = {products * c.edge, products * c.rate, 0};
    cost(id).activation_bytes = {kept * c.edge, kept * c.rate, 0};
    cost(id).elementwise_bytes = {2 * kept * c.edge, 2 * kept * c.rate, 0};
    w_.runs(id);
  }

  void project() {
    const std::int64_t width = s_.convolutions.back().out;
    const std::string at = base_ + "feature_projection.";
    if (s_.normed_features) w_.runs(w_.norm(at + "layer_norm", NormKind::layer, width));
    w_.runs(w_.linear(at + "projection", width, s_.hidden, true));
  }

  // Its weight is a direction and a length for each place of the kernel.
  void positions() {
    w_.enter(base_ + "encoder.pos_conv_embed");
    TreeBuilder& tree = w_.tree();
    const ModuleId id = tree.open("conv", "ParametrizedConv1d");
    tree.parameter("bias", {s_.hidden});
    tree.open("parametrizations", "ModuleDict");
    tree.open("weight", "ParametrizationList");
    tree.parameter("original0", {1, 1, s_.kernel});
    tree.parameter("original1", {s_.hidden, s_.hidden / s_.groups, s_.kernel});
    tree.close();
    tree.close();
    tree.close();
    const auto h = static_cast<double>(s_.hidden);
    const double products =
        2 * static_cast<double>(s_.kernel) * static_cast<double>(s_.hidden / s_.groups) * h;
    cost(id).matmul_flops = {s_.kernel % 2 == 0 ? products : 0, products, 0};
    cost(id).activation_bytes = per_token(2 * element * h);
    cost(id).elementwise_bytes = per_token(6 * element * h);
    w_.runs(id);
  }

  void block(std::int64_t number) {
    const std::string path = base_ + "encoder.layers." + std::to_string(number);
    w_.begin_block(path,
                   kind_.prefix + (s_.stable ? "EncoderLayerStableLayerNorm" : "EncoderLayer"),
                   s_.hidden);
    const AttentionPart part{.weights = "k_proj:k v_proj:v q_proj:q out_proj:o",
                             .biases = "q k v o",
                             .heads = s_.heads,
                             .key_value_heads = s_.heads,
                             .head_dim = s_.hidden / s_.heads,
                             .rotary = false,
                             .causal = false};
    const ModuleId attention =
        w_.attention(path + ".attention", part, s_.hidden, false, s_.dropout);
    const ModuleId norm = w_.norm(path + ".layer_norm", NormKind::layer, s_.hidden);
    const MlpPart mlp{.weights = "feed_forward.intermediate_dense:u feed_forward.output_dense:d",
                      .biases = "u d",
                      .inner = s_.inner};
    const auto halves = w_.mlp_halves(path, mlp, s_.hidden, s_.dropout);
    const ModuleId last = w_.norm(path + ".final_layer_norm", NormKind::layer, s_.hidden);
    const std::vector<ModuleId> order =
        s_.stable ? std::vector{norm, attention, last, halves[0], halves[1]}
                  : std::vector{attention, norm, halves[0], halves[1], last};
    for (const ModuleId id : order) w_.runs(id);
  }

  void finish() {
    if (head_ == "ForCTC") w_.runs(w_.linear("lm_head", s_.hidden, s_.vocabulary, true));
    if (head_ != "ForSequenceClassification") return;
    w_.runs(w_.linear("projector", s_.hidden, s_.projection, true));
    run_on_one_token(w_, "classifier", s_.projection, labels_);  // the mean of all frames
  }

  const SpeechKind& kind_;
  const SpeechSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

Result<Model> build_speech(const SpeechKind& kind, JsonReader& config, const std::string& head,
                           const std::string& name) {
  return built<SpeechBuilder>(config, head, name, kind, read_speech(config, kind));
}

}  // namespace

Result<Model> wav2vec2_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_speech({"Wav2Vec2", "wav2vec2"}, config, head, name);
}

Result<Model> hubert_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_speech({"Hubert", "hubert"}, config, head, name);
}

}  // namespace tessera
