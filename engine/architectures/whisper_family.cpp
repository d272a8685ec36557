// SPDX-License-Identifier: Apache-2.0
// Whisper (arXiv 2212.04356): an encoder of sound with a decoder.
#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

struct WhisperSizes {
  std::int64_t vocabulary, bins, hidden, sources, targets, projection;
  std::int64_t layers[2], heads[2], inner[2];  // of the encoder, of the decoder
  bool dropout, tied;
};

WhisperSizes read_whisper(JsonReader& config) {
  WhisperSizes s{};
  s.vocabulary = config.integer("vocab_size", 1, 51865);
  s.bins = config.integer("num_mel_bins", 1, 80);
  s.hidden = integer_of(config, "d_model|hidden_size", 1, 384);
  s.sources = config.integer("max_source_positions", 1, 1500);
  s.targets = config.integer("max_target_positions", 1, 448);
  s.projection = config.integer("classifier_proj_size", 1, 256);
  s.layers[0] = blocks_of(config, "encoder_layers|num_hidden_layers", 4);
  s.layers[1] = blocks_of(config, "decoder_layers", 4);
  s.heads[0] =
      heads_of(config, "encoder_attention_heads|num_attention_heads", 6, "d_model", s.hidden);
  s.heads[1] = heads_of(config, "decoder_attention_heads", 6, "d_model", s.hidden);
  s.inner[0] = config.integer("encoder_ffn_dim", 1, 1536);
  s.inner[1] = config.integer("decoder_ffn_dim", 1, 1536);
  s.dropout = probability_of(config, "dropout", 0) > 0;
  s.tied = config.boolean("tie_word_embeddings", true);
  return s;
}

class WhisperBuilder {
 public:
  WhisperBuilder(const WhisperSizes& sizes, const std::string& head, std::int64_t labels,
                 const std::string& name, DType dtype)
      : s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "ForConditionalGeneration" ? "model." : ""),
        w_(name, "Whisper" + head, "Whisper", dtype) {}

  Model build() {
    describe_encoder(w_.model(), s_.targets, s_.heads[1], s_.hidden);
    w_.container("model", "WhisperModel");
    w_.container(base_ + "encoder", "WhisperEncoder");
    w_.container(base_ + "decoder", "WhisperDecoder");
    encoder();
    if (head_ == "ForAudioClassification") {
      run_fixed(w_.linear("projector", s_.hidden, s_.projection, true));
      w_.runs(w_.linear("classifier", s_.projection, labels_, true));
      fix_length(cost(w_.model().forward.back()), 1);
      return w_.take();
    }
    decoder();
    if (head_ == "ForConditionalGeneration") {
      const std::string table = "model.decoder.embed_tokens.weight";
      w_.runs(w_.head("proj_out", s_.hidden, s_.vocabulary, s_.tied ? table : "", false, false,
                      /*wide=*/false));
    }
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  void run_fixed(ModuleId id) {
    fix_length(cost(id), s_.sources);
    w_.runs(id);
  }

  void convolution(const std::string& name, std::int64_t channels, std::int64_t frames) {
    constexpr std::int64_t width = 3;
    w_.enter(base_ + "encoder");
    const ModuleId id = w_.tree().open(name, "Conv1d");
    w_.tree().parameter("weight", {s_.hidden, channels, width});
    w_.tree().parameter("bias", {s_.hidden});
    w_.tree().close();
    cost(id) = linear_cost({channels * width, s_.hidden});
    const double h = static_cast<double>(s_.hidden);
    const double c = static_cast<double>(channels);
    // Its input and the activation's; the second convolution reads twice as many frames.
    cost(id).activation_bytes = per_token(
        element * (h + c * static_cast<double>(frames) / static_cast<double>(s_.sources)));
    cost(id).elementwise_bytes = per_token(2 * element * h);
    fix_length(cost(id), name == "conv1" ? 2 * s_.sources : s_.sources);
    w_.runs(id);
  }

  void encoder() {
    const std::string at = base_ + "encoder.";
    convolution("conv1", s_.bins, s_.sources);
    convolution("conv2", s_.hidden, 2 * s_.sources);
    run_fixed(w_.embedding(at + "embed_positions", s_.sources, s_.hidden, true));
    w_.model().parameters.back().requires_grad = false;
    for (std::int64_t k = 0; k < s_.layers[0]; ++k) {
      const std::string path = at + "layers." + std::to_string(k);
      w_.begin_block(path, "WhisperEncoderLayer", s_.hidden);
      const auto first = w_.model().forward.size();
      block(path, 0);
      for (std::size_t each = first; each < w_.model().forward.size(); ++each) {
        fix_length(cost(w_.model().forward[each]), s_.sources);
      }
      Polynomial& kept = w_.tree().module(w_.model().find_module(path)).checkpoint_bytes;
      kept = {kept.at(s_.sources), 0, 0};
    }
    run_fixed(w_.norm(at + "layer_norm", NormKind::layer, s_.hidden));
  }

  void decoder() {
    const std::string at = base_ + "decoder.";
    w_.runs(w_.embedding(at + "embed_tokens", s_.vocabulary, s_.hidden, false));
    w_.runs(w_.embedding(at + "embed_positions", s_.targets, s_.hidden, true));
    for (std::int64_t k = 0; k < s_.layers[1]; ++k) {
      const std::string path = at + "layers." + std::to_string(k);
      w_.begin_block(path, "WhisperDecoderLayer", s_.hidden);
      block(path, 1);
    }
    w_.runs(w_.norm(at + "layer_norm", NormKind::layer, s_.hidden));
  }

  AttentionPart attention(int side, bool causal) const {
    return {.weights = "k_proj:k v_proj:v q_proj:q out_proj:o",
            .biases = "q v o",
            .heads = s_.heads[side],
            .key_value_heads = s_.heads[side],
            .head_dim = s_.hidden / s_.heads[side],
            .rotary = false,
            .causal = causal};
  }

  // Keys and values are of the sound, queries of the text.
  void cross(ModuleId id) {
    ModuleCost& c = cost(id);
    const double h = static_cast<double>(s_.hidden);
    const auto sound = static_cast<double>(s_.sources);
    c.matmul_flops = {4 * h * h * sound, 4 * h * h, 0};
    c.attention_flops = {0, 4 * h * sound, 0};
    c.activation_bytes.constant = 2 * element * h * sound;
    c.activation_bytes.linear -= 2 * element * h;
    c.linears.clear();
    c.attention.heads = 0;
  }

  void block(const std::string& path, int side) {
    struct Sub {
      ModuleId self, self_norm, cross, cross_norm;
    } sub;
    sub.self =
        w_.attention(path + ".self_attn", attention(side, side == 1), s_.hidden, false, s_.dropout);
    sub.self_norm = w_.norm(path + ".self_attn_layer_norm", NormKind::layer, s_.hidden);
    if (side == 1) {
      sub.cross = w_.attention(path + ".encoder_attn", attention(side, false), s_.hidden, false,
                               s_.dropout);
      cross(sub.cross);
      sub.cross_norm = w_.norm(path + ".encoder_attn_layer_norm", NormKind::layer, s_.hidden);
    }
    const MlpPart mlp{.weights = "fc1:u fc2:d", .biases = "u d", .inner = s_.inner[side]};
    const auto halves = w_.mlp_halves(path, mlp, s_.hidden, s_.dropout);
    const ModuleId last = w_.norm(path + ".final_layer_norm", NormKind::layer, s_.hidden);
    for (const ModuleId id : {sub.self_norm, sub.self, sub.cross_norm, sub.cross, last}) {
      if (id.valid()) w_.runs(id);
    }
    for (const ModuleId id : halves) w_.runs(id);
  }

  const WhisperSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> whisper_model(JsonReader& config, const std::string& head, const std::string& name) {
  return built<WhisperBuilder>(config, head, name, read_whisper(config));
}

}  // namespace tessera
