// SPDX-License-Identifier: Apache-2.0
// T5 (arXiv 1910.10683) and its kin: with experts (Switch Transformers, arXiv 2101.03961), with
// attention to blocks (LongT5, arXiv 2112.07916).
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"
#include "engine/architectures/number_keys.h"

namespace tessera {
namespace {

// What the members of the T5 family differ in.
struct T5Kind {
  std::string prefix;
  std::int64_t vocabulary, inner, layers, heads;
  const char* projection;
  std::int64_t hidden = 512;
  const char* mlp = "DenseReluDense";
  bool tables = false;  // of relative positions in every block, not in the first alone
  bool routed = false;  // some blocks have experts
  bool local = false;   // the encoder attends to blocks
};

struct T5Sizes {
  std::int64_t vocabulary, hidden, inner, head_dim, heads, buckets;
  std::int64_t layers[2];  // of the encoder, of the decoder
  bool gated, relu, dropout, untied;
  std::int64_t experts = 0, capacity = 0, steps[2] = {};  // each so many blocks; 0: none
  bool router_bias = false, noise = false;
  std::int64_t block = 0;   // of tokens, which attends to itself and its neighbours; 0: to all
  std::int64_t global = 0;  // so many tokens are one that all attend to; 0: none
};

constexpr std::int64_t most_experts = 4096;

// "relu", or "gated-gelu".
void read_projection(JsonReader& config, const T5Kind& kind, T5Sizes& s) {
  const char* const key = kind.routed ? "dense_act_fn" : "feed_forward_proj";
  const std::string projection = config.text(key, kind.projection);
  s.relu = projection == "relu";
  s.gated = !kind.routed && projection.starts_with("gated-");
  if (!is_activation(projection.substr(s.gated ? 6 : 0))) {
    config.fail(key,
                fmt::format("must be an activation such as \"relu\"{}, found {}",
                            kind.routed ? "" : ", or \"gated-\" and one", in_quotes(projection)));
  }
  if (!kind.routed) {
    s.gated = config.boolean("is_gated_act", s.gated);  // beats what the name says
  }
}

void read_experts(JsonReader& config, T5Sizes& s) {
  s.experts = config.integer("num_experts", 1, 8);
  if (s.experts > most_experts) {
    config.fail("num_experts", fmt::format("is {}, more than {}", s.experts, most_experts));
  }
  s.experts = std::min(s.experts, most_experts);
  s.capacity = config.integer("expert_capacity", 1, 64);
  s.router_bias = config.boolean("router_bias", false);
  s.noise = config.not_negative("router_jitter_noise", 0.01) > 0;
  int side = 0;
  for (const char* key : {"num_sparse_encoder_layers", "num_sparse_decoder_layers"}) {
    const std::int64_t sparse = config.integer(key, 0, 3);
    // None: only the second of as many blocks as there are would have experts, as transformers.
    s.steps[side] = sparse > 0 ? s.layers[side] / sparse : s.layers[side];
    ++side;
  }
  s.steps[0] = config.integer("encoder_sparse_step", 0, s.steps[0]);
  s.steps[1] = config.integer("decoder_sparse_step", 0, s.steps[1]);
  if (config.boolean("tie_word_embeddings", true)) return;
  config.fail("tie_word_embeddings",
              "is false, but this model is built with one table for both halves and the head: "
              "describe it as a module tree");
}

void read_blocks(JsonReader& config, T5Sizes& s) {
  constexpr std::int64_t most = 1'000'000;
  const std::int64_t radius = config.integer("local_radius", 1, 127);
  const std::int64_t size = config.integer("global_block_size", 1, 16);
  if (radius > most) config.fail("local_radius", fmt::format("is {}, more than {}", radius, most));
  const std::string type = config.text("encoder_attention_type", "local");
  if (type != "local" && type != "transient-global") {
    config.fail("encoder_attention_type", "must be local or transient-global");
  }
  s.block = std::min(radius, most) + 1;
  s.global = type == "local" ? 0 : size;
}

T5Sizes read_t5(JsonReader& config, const T5Kind& kind) {
  T5Sizes s{};
  s.vocabulary = config.integer("vocab_size", 1, kind.vocabulary);
  s.hidden = integer_of(config, "d_model|hidden_size", 1, kind.hidden);
  s.inner = config.integer("d_ff", 1, kind.inner);
  s.head_dim = integer_of(config, kind.routed ? "d_kv" : "d_kv|head_dim", 1, 64);
  s.layers[0] = blocks_of(config, "num_layers|num_hidden_layers", kind.layers);
  const bool null = config.json().contains("num_decoder_layers");  // or its value counts
  s.layers[1] = blocks_of(config, "num_decoder_layers", kind.routed && !null ? 12 : s.layers[0]);
  s.heads = integer_of(config, "num_heads|num_attention_heads", 1, kind.heads);
  s.buckets = config.integer("relative_attention_num_buckets", 1, 32);
  read_projection(config, kind, s);
  s.untied = !config.boolean("tie_word_embeddings", true);
  s.dropout = probability_of(config, "dropout_rate", 0.1) > 0;
  if (kind.routed) read_experts(config, s);
  if (kind.local) read_blocks(config, s);
  check_heads_width(config, "d_kv", s.head_dim, "num_heads", s.heads);
  return s;
}

class T5Builder {
 public:
  T5Builder(const T5Kind& kind, const T5Sizes& sizes, const std::string& head, std::int64_t labels,
            const std::string& name, DType dtype)
      : kind_(kind),
        s_(sizes),
        head_(head),
        labels_(labels),
        w_(name, kind.prefix + head, kind.prefix, dtype) {}

  Model build() {
    describe_encoder(w_.model(), 0, s_.heads, s_.heads * s_.head_dim);
    for (const char* stack : {"encoder", "decoder"})
      w_.container(base() + stack, kind_.prefix + "Stack");
    if (head_ == "ForTokenClassification")
      w_.container("transformer", kind_.prefix + "EncoderModel");
    if (head_ == "ForSequenceClassification") w_.container("transformer", kind_.prefix + "Model");
    w_.container("classification_head", kind_.prefix + "ClassificationHead");
    const ModuleId shared = w_.embedding(base() + "shared", s_.vocabulary, s_.hidden, false);
    w_.runs(shared);
    stack("encoder", 0);
    if (head_ != "EncoderModel" && head_ != "ForTokenClassification") {
      w_.runs(shared);
      stack("decoder", 1);
    }
    finish();
    return w_.take();
  }

 private:
  std::string base() const {
    const bool classifies =
        head_ == "ForTokenClassification" || head_ == "ForSequenceClassification";
    return classifies ? "transformer." : "";
  }

  void finish() {
    if (head_ == "ForConditionalGeneration") {
      w_.runs(w_.head("lm_head", s_.hidden, s_.vocabulary, "shared.weight", false, false,
                      /*wide=*/false));
    } else if (head_ == "ForTokenClassification") {
      w_.runs(w_.linear("classifier", s_.hidden, labels_, true));
    } else if (head_ == "ForSequenceClassification") {
      w_.runs(w_.linear("classification_head.dense", s_.hidden, s_.hidden, true));
      w_.runs(w_.linear("classification_head.out_proj", s_.hidden, labels_, true));
    }
  }

  // Whether transformers 5.24 has a fused kernel for its attention.
  bool fuses() const { return !kind_.routed && !kind_.local; }

  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  void attend(const std::string& path, const std::string& kind, bool causal, bool table) {
    const bool cross = kind == "EncDec";
    const bool keeps_blocks = !cross && !kind.empty();
    const std::string name = cross ? "EncDecAttention" : kind + "SelfAttention";
    w_.container(path, kind_.prefix + (cross ? "LayerCrossAttention" : "Layer" + name));
    const AttentionPart part{
        .class_name = kind_.prefix + (cross ? "" : kind) + "Attention",
        .weights = std::string("q:q k:k v:v o:o") + (table ? " relative_attention_bias:b" : ""),
        .heads = s_.heads,
        .key_value_heads = s_.heads,
        .head_dim = s_.head_dim,
        .buckets = s_.buckets,
        .rotary = false,
        .causal = causal,
        .kept_scores = fuses() || keeps_blocks ? 0 : kept_scores(false, s_.dropout)};
    const std::string full = path + "." + name;
    const ModuleId id = w_.attention(full, part, s_.hidden, false, s_.dropout);
    if (kind == "TransientGlobal") {
      w_.enter(full);
      if (table) {
        w_.tree().leaf("global_relative_attention_bias", "Embedding", {s_.buckets, s_.heads});
      }
      w_.tree().leaf("global_input_layer_norm", kind_.prefix + "RMSNorm", {s_.hidden});
    }
    if (keeps_blocks) keep_blocks(cost(id));
    w_.runs(w_.norm(path + ".layer_norm", NormKind::rms, s_.hidden));
    w_.runs(id);
  }

  // A token attends to its block, both beside it and, where there are such, to what stands for
  // `global` tokens each. Scores are computed in float32 and stay; keys and values are copied for
  // each block.
  void keep_blocks(ModuleCost& cost) const {
    const auto q = static_cast<double>(s_.heads * s_.head_dim);
    const auto h = static_cast<double>(s_.hidden);
    const auto near = static_cast<double>(3 * s_.block);
    const double far = s_.global > 0 ? 1 / static_cast<double>(s_.global) : 0;  // of all tokens
    const auto block = static_cast<double>(s_.block);
    cost.attention_flops = {0, 4 * q * near, 4 * q * far};
    cost.matmul_flops.linear += 4 * h * q * far;
    cost.matmul_flops.quadratic += 2 * h * far;
    const double scores = static_cast<double>(s_.heads) * kept_scores(true, s_.dropout);
    cost.activation_bytes.linear += scores * near + 4 * element * q;
    cost.activation_bytes.quadratic += scores * far + 2 * element * q * far / block;
    cost.elementwise_bytes.linear += 2 * scores * near;
    cost.elementwise_bytes.quadratic += 2 * scores * far;
    cost.kernels += 8;
  }

  ModuleId widen(const std::string& path, bool routed) {
    if (routed) {
      const ModuleId id = w_.experts(path,
                                     {.name = kind_.mlp,
                                      .class_name = "SparseMLP",
                                      .router = "classifier",
                                      .router_module = "router",
                                      .numbered = "expert_",
                                      .expert_class = "DenseActDense",
                                      .weights = "wi:u wo:d",
                                      .count = s_.experts,
                                      .per_token = 1,
                                      .inner = s_.inner,
                                      .router_bias = s_.router_bias,
                                      .wide_router = true,
                                      .relu = true},
                                     s_.hidden);
      const auto h = static_cast<double>(s_.hidden);
      // Beside its own copy the router keeps noise; experts keep what they gather, and no input.
      cost(id).activation_bytes.linear += (s_.noise ? 4 * h : 0) - element * h;
      if (!s_.dropout) return id;
      cost(id).activation_bytes.linear += h + (element + 1) * static_cast<double>(s_.inner);
      cost(id).dropout = h;
      return id;
    }
    const MlpPart mlp{.class_name = s_.gated ? kind_.prefix + "DenseGatedActDense"
                                             : kind_.prefix + "DenseActDense",
                      .weights = s_.gated ? "wi_0:g wi_1:u wo:d" : "wi:u wo:d",
                      .inner = s_.inner};
    const ModuleId id = w_.mlp(path, mlp, s_.hidden, false, s_.dropout);
    // What comes out of the activation is dropped out: a mask, and its result in the place of its
    // input. Without that ReLU needs its output alone, which is kept anyway.
    const auto f = static_cast<double>(s_.inner);
    if (s_.dropout) cost(id).activation_bytes.linear += f;
    if (!s_.dropout && s_.relu && !s_.gated) cost(id).activation_bytes.linear -= element * f;
    return id;
  }

  void stack(const std::string& name, int side) {
    const bool decoder = side == 1;
    const std::string kind = decoder || s_.block == 0 ? ""
                             : s_.global > 0          ? "TransientGlobal"
                                                      : "Local";
    const std::int64_t step = s_.steps[side];
    for (std::int64_t k = 0; k < s_.layers[side]; ++k) {
      const std::string path = base() + name + ".block." + std::to_string(k);
      w_.begin_block(path, kind_.prefix + "Block", s_.hidden);
      attend(path + ".layer.0", kind, decoder, k == 0 || kind_.tables);
      if (decoder) attend(path + ".layer.1", "EncDec", false, false);
      const std::string last = path + (decoder ? ".layer.2" : ".layer.1");
      w_.container(last, kind_.prefix + "LayerFF");
      const bool routed = kind_.routed && step > 0 && (step == 1 || k % step == 1);
      const ModuleId id = widen(last + "." + kind_.mlp, routed);
      w_.runs(w_.norm(last + ".layer_norm", NormKind::rms, s_.hidden));
      w_.runs(id);
    }
    w_.runs(w_.norm(base() + name + ".final_layer_norm", NormKind::rms, s_.hidden));
  }

  const T5Kind& kind_;
  const T5Sizes s_;
  const std::string head_;
  const std::int64_t labels_;
  PartWriter w_;
};

Result<Model> build_t5(const T5Kind& kind, JsonReader& config, const std::string& head,
                       const std::string& name) {
  const T5Sizes sizes = read_t5(config, kind);
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  if (head == "EncoderModel" && config.boolean("is_decoder", false)) {
    config.fail("is_decoder", "is true, but this class is built as an encoder alone");
  }
  TESSERA_TRY(config.status());
  Model model = T5Builder(kind, sizes, head, labels, name, dtype).build();
  if (sizes.untied && head == "ForConditionalGeneration") {
    model.warnings.push_back(
        fmt::format("tie_word_embeddings false is ignored: transformers 5 ties those of {} "
                    "whatever it says",
                    kind.prefix));
  }
  add_note(model, bias_note(kind.prefix, sizes.heads));
  if (kind.routed) {
    add_note(model, fmt::format("every token meets an expert: those beyond expert_capacity {} of "
                                "an expert and sequence, which transformers leaves out, count",
                                sizes.capacity));
  }
  return checked(std::move(model), config);
}

}  // namespace

Result<Model> t5_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_t5({"T5", 32128, 2048, 6, 8, "relu"}, config, head, name);
}

Result<Model> mt5_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_t5({"MT5", 250112, 1024, 8, 6, "gated-gelu"}, config, head, name);
}

Result<Model> umt5_model(JsonReader& config, const std::string& head, const std::string& name) {
  T5Kind kind{"UMT5", 250112, 1024, 8, 6, "gated-gelu"};
  kind.tables = true;
  return build_t5(kind, config, head, name);
}

Result<Model> switch_model(JsonReader& config, const std::string& head, const std::string& name) {
  T5Kind kind{"SwitchTransformers", 32128, 2048, 12, 12, "relu", 768, "mlp"};
  kind.routed = true;
  return build_t5(kind, config, head, name);
}

Result<Model> longt5_model(JsonReader& config, const std::string& head, const std::string& name) {
  T5Kind kind{"LongT5", 32128, 2048, 6, 8, "relu"};
  kind.local = true;
  return build_t5(kind, config, head, name);
}

}  // namespace tessera
