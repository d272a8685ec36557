// SPDX-License-Identifier: Apache-2.0
// ViT (arXiv 2010.11929) and its kin: a sample is an image, whatever the length of a sequence.
#include <fmt/format.h>

#include <map>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

// What the members of the family differ in.
struct ImageKind {
  std::string prefix, base;
  std::string tokens = "cls_token";  // parameters before the patches, of which "mask_token" is none
  std::string layers = "encoder.layer";
  std::string block = "Layer";
  // Parts of a block in the order of registration; they run as `runs` says.
  std::string registered = "attention mlp before after";
  std::string attention = "attention";
  std::string weights = "attention.query:q attention.key:k attention.value:v output.dense:o";
  std::string halves = "intermediate.dense:u output.dense:d";  // of the MLP
  std::string before = "layernorm_before", after = "layernorm_after", last = "layernorm";
  std::int64_t patch = 16;
  bool ratio = false;        // the width of the MLP is a multiple of the model's
  bool pools = true;         // without a head
  bool registers = false;    // more tokens, which have no places
  bool contrastive = false;  // CLIP's and SigLIP's embeddings and keys
};
const char* const runs = "before attention scale1 after mlp scale2";

struct ImageSizes {
  std::int64_t hidden, inner, layers, heads, head_dim, patch, channels, patches, pooled, projection,
      registers;
  bool qkv_bias = true, dropout = false, gated = false, mask = false, pooling = false;
};

constexpr std::int64_t widest = std::int64_t{1} << 40;

void read_patches(JsonReader& config, const ImageKind& kind, ImageSizes& s) {
  s.patch = config.integer("patch_size", 1, kind.patch);
  s.channels = config.integer("num_channels", 1, 3);
  const std::int64_t image = config.integer("image_size", 1, 224);
  constexpr std::int64_t most = 1'000'000;
  for (const auto& [key, size] : {std::pair{"image_size", image}, {"patch_size", s.patch}}) {
    if (size > most) config.fail(key, fmt::format("is {}, more than {}", size, most));
  }
  if (s.patch > image) {
    config.fail("patch_size", fmt::format("{} is more than image_size {}", s.patch, image));
  }
  const std::int64_t side = std::min(image, most) / std::min(s.patch, most);
  s.patches = side * side;
}

// SwiGLU keeps two thirds of the width, rounded up to a multiple of 8.
void read_ratio(JsonReader& config, const ImageKind& kind, ImageSizes& s) {
  const std::int64_t ratio = config.integer("mlp_ratio", 1, 4);
  if (ratio > widest / s.hidden) return config.fail("mlp_ratio", fmt::format("is {}", ratio));
  s.inner = s.hidden * ratio;
  s.gated = config.boolean("use_swiglu_ffn", false);
  if (s.gated) s.inner = (s.inner * 2 / 3 + 7) / 8 * 8;
  if (kind.registers) {
    constexpr std::int64_t most = 1'000'000;
    s.registers = config.integer("num_register_tokens", 1, 4);
    if (s.registers > most) config.fail("num_register_tokens", fmt::format("is {}", s.registers));
  }
  s.mask = kind.registers || config.boolean("use_mask_token", true);
}

ImageSizes read_image(JsonReader& config, const ImageKind& kind) {
  ImageSizes s{};
  s.hidden = config.integer("hidden_size", 1, 768);
  if (s.hidden > widest) config.fail("hidden_size", fmt::format("is {}", s.hidden));
  s.layers = blocks_of(config, "num_hidden_layers", 12);
  s.heads = heads_of(config, "num_attention_heads", 12, "hidden_size", s.hidden);
  s.head_dim = s.hidden / s.heads;
  if (!kind.contrastive) s.head_dim = config.integer("head_dim", 1, s.head_dim);
  if (s.head_dim > widest / s.heads) {
    config.fail("head_dim", fmt::format("{} times num_attention_heads {} is more than {}",
                                        s.head_dim, s.heads, widest));
  }
  read_patches(config, kind, s);
  if (kind.ratio) {
    read_ratio(config, kind, s);
  } else {
    s.inner = config.integer("intermediate_size", 1, 3072);
  }
  if (kind.contrastive) {
    if (!kind.tokens.empty()) s.projection = config.integer("projection_dim", 1, 512);
    s.pooling = kind.tokens.empty() && config.boolean("vision_use_head", true);
    return s;
  }
  if (!kind.ratio && kind.pools) s.pooled = config.integer("pooler_output_size", 1, s.hidden);
  s.qkv_bias = config.boolean("qkv_bias", true);
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
  return s;
}

class ImageBuilder {
 public:
  ImageBuilder(const ImageKind& kind, const ImageSizes& sizes, const std::string& head,
               std::int64_t labels, const std::string& name, DType dtype)
      : kind_(kind),
        s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" && !kind.contrastive ? "" : kind.base + "."),
        w_(name, kind.prefix + head, kind.prefix, dtype) {
    for (const std::string& word : words_of(kind.tokens)) tokens_ += word == "mask_token" ? 0 : 1;
  }

  Model build() {
    describe_encoder(w_.model(), 0, s_.heads, s_.heads * s_.head_dim);
    w_.container(kind_.base, kind_.prefix + (kind_.contrastive ? "Transformer" : "Model"));
    for (const char* part : {"Embeddings", "Encoder", "Intermediate", "Output", "Pooler"}) {
      std::string path = part;
      path[0] = static_cast<char>(path[0] - 'A' + 'a');
      w_.container(path, kind_.prefix + part);
    }
    w_.container("attention", kind_.prefix + "SelfAttention");
    kind_.contrastive ? contrastive_embeddings() : embeddings();
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    const bool one = kind_.contrastive && tokens_ > 0;  // of CLIP only the class is normed
    run(w_.norm(base_ + kind_.last, NormKind::layer, s_.hidden), one ? 1 : tokens());
    finish();
    return w_.take();
  }

 private:
  std::int64_t tokens() const { return s_.patches + tokens_ + s_.registers; }

  void run(ModuleId id, std::int64_t length) {
    fix_length(w_.tree().module(id).cost, length);
    w_.runs(id);
  }

  void finish() {
    if (s_.pooling) return attention_pooling();
    if (head_ == "ModelWithProjection") {
      run(w_.linear("visual_projection", s_.hidden, s_.projection, false), 1);
    } else if (head_ == "Model") {
      if (s_.pooled > 0) run(w_.linear(base_ + "pooler.dense", s_.hidden, s_.pooled, true), 1);
    } else if (head_ == "ForImageClassificationWithTeacher") {
      for (const char* name : {"cls_classifier", "distillation_classifier"}) {
        run(w_.linear(name, s_.hidden, labels_, true), 1);
      }
    } else {  // DINOv2's reads the mean of the patches beside the class
      run(w_.linear("classifier", s_.hidden * (kind_.ratio ? 2 : 1), labels_, true), 1);
    }
  }

  void convolution(const char* name, bool bias) {
    TreeBuilder& tree = w_.tree();
    tree.open(name, "Conv2d");
    tree.parameter("weight", {s_.hidden, s_.channels, s_.patch, s_.patch});
    if (bias) tree.parameter("bias", {s_.hidden});
    tree.close();
  }

  // One piece of work: patches are projected, tokens are put before them, positions are added.
  void run_embeddings() {
    const ModuleId id = w_.model().find_module(base_ + "embeddings");
    ModuleCost& cost = w_.tree().module(id).cost;
    cost = linear_cost({s_.channels * s_.patch * s_.patch, s_.hidden});
    cost.elementwise_bytes = per_token(5 * element * static_cast<double>(s_.hidden));
    run(id, s_.patches);
  }

  void embeddings() {
    w_.enter(base_ + "embeddings");
    TreeBuilder& tree = w_.tree();
    for (const std::string& word : words_of(kind_.tokens)) {
      if (word != "mask_token") tree.parameter(word, {1, 1, s_.hidden});
      if (word == "mask_token" && s_.mask) tree.parameter(word, {1, s_.hidden});
    }
    tree.parameter("position_embeddings", {1, s_.patches + tokens_, s_.hidden});
    if (s_.registers > 0) tree.parameter("register_tokens", {1, s_.registers, s_.hidden});
    tree.open("patch_embeddings", kind_.prefix + "PatchEmbeddings");
    convolution("projection", true);
    tree.close();
    run_embeddings();
  }

  void contrastive_embeddings() {
    w_.enter(base_ + "embeddings");
    if (tokens_ > 0) w_.tree().parameter("class_embedding", {s_.hidden});
    convolution("patch_embedding", tokens_ == 0);
    w_.tree().leaf("position_embedding", "Embedding", {tokens(), s_.hidden});
    run_embeddings();
    if (tokens_ > 0) run(w_.norm(base_ + "pre_layrnorm", NormKind::layer, s_.hidden), tokens());
  }

  // A learned query looks at all patches (SigLIP, arXiv 2303.15343).
  void attention_pooling() {
    w_.container("head", kind_.prefix + "MultiheadAttentionPoolingHead");
    w_.enter(base_ + "head");
    TreeBuilder& tree = w_.tree();
    tree.parameter("probe", {1, 1, s_.hidden});
    tree.open("attention", "MultiheadAttention");
    tree.parameter("in_proj_weight", {3 * s_.hidden, s_.hidden});
    tree.parameter("in_proj_bias", {3 * s_.hidden});
    tree.linear("out_proj", s_.hidden, s_.hidden, true);
    tree.close();
    const ModuleId id = w_.model().find_module(base_ + "head.attention");
    const auto h = static_cast<double>(s_.hidden);
    const auto patches = static_cast<double>(s_.patches);
    ModuleCost& cost = w_.tree().module(id).cost;
    cost.matmul_flops = {4 * h * h * (patches + 1), 0, 0};
    cost.attention_flops = {4 * h * patches, 0, 0};
    cost.activation_bytes = {2 * element * h * patches, 0, 0};
    cost.elementwise_bytes = {4 * element * h * patches, 0, 0};
    w_.runs(id);
    run(w_.norm(base_ + "head.layernorm", NormKind::layer, s_.hidden), 1);
    run(w_.mlp(base_ + "head.mlp", mlp(), s_.hidden, false, false), 1);
  }

  MlpPart mlp() const {
    if (s_.gated) {
      return {.class_name = kind_.prefix + "SwiGLUFFN",
              .weights = "gate_proj:g up_proj:u down_proj:d",
              .biases = "g u d",
              .inner = s_.inner};
    }
    return {.weights = kind_.halves, .biases = "u d", .inner = s_.inner};
  }

  std::vector<ModuleId> part(const std::string& word, const std::string& path) {
    if (word == "before" || word == "after") {
      const std::string& name = word == "before" ? kind_.before : kind_.after;
      return {w_.norm(path + "." + name, NormKind::layer, s_.hidden)};
    }
    if (word == "attention") {
      const AttentionPart attention{.class_name = kind_.prefix + "Attention",
                                    .weights = kind_.weights,
                                    .biases = s_.qkv_bias ? "q k v o" : "o",
                                    .heads = s_.heads,
                                    .key_value_heads = s_.heads,
                                    .head_dim = s_.head_dim,
                                    .rotary = false,
                                    .causal = false};
      return {w_.attention(path + "." + kind_.attention, attention, s_.hidden, false, s_.dropout)};
    }
    if (word == "mlp" && kind_.halves.starts_with("intermediate")) {
      return w_.mlp_halves(path, mlp(), s_.hidden, s_.dropout);
    }
    if (word == "mlp") return {w_.mlp(path + ".mlp", mlp(), s_.hidden, false, s_.dropout)};
    // A number per element, that what a part adds is multiplied with.
    w_.enter(path);
    const std::string name = word == "scale1" ? "layer_scale1" : "layer_scale2";
    const ModuleId id = w_.tree().open(name, kind_.prefix + "LayerScale");
    w_.tree().parameter("lambda1", {s_.hidden});
    w_.tree().close();
    const auto h = static_cast<double>(s_.hidden);
    w_.tree().module(id).cost.activation_bytes = per_token(element * h);
    w_.tree().module(id).cost.elementwise_bytes = per_token(2 * element * h);
    return {id};
  }

  void block(std::int64_t number) {
    const std::string path = base_ + kind_.layers + "." + std::to_string(number);
    w_.begin_block(path, kind_.prefix + kind_.block, s_.hidden);
    const auto kept = static_cast<double>(tokens()) * element * static_cast<double>(s_.hidden);
    w_.tree().module(w_.model().find_module(path)).checkpoint_bytes = {kept, 0, 0};
    std::map<std::string, std::vector<ModuleId>> parts;
    for (const std::string& word : words_of(kind_.registered)) parts[word] = part(word, path);
    for (const std::string& word : words_of(runs)) {
      for (const ModuleId id : parts[word]) run(id, tokens());
    }
  }

  const ImageKind& kind_;
  const ImageSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  std::int64_t tokens_ = 0;  // before the patches
  PartWriter w_;
};

Result<Model> build_image(const ImageKind& kind, JsonReader& config, const std::string& head,
                          const std::string& name) {
  return built<ImageBuilder>(config, head, name, kind, read_image(config, kind));
}

ImageKind contrastive(const std::string& prefix) {
  ImageKind kind{.prefix = prefix, .base = "vision_model"};
  kind.layers = "encoder.layers";
  kind.block = "EncoderLayer";
  kind.attention = "self_attn";
  kind.weights = "k_proj:k v_proj:v q_proj:q out_proj:o";
  kind.halves = "fc1:u fc2:d";
  kind.before = "layer_norm1";
  kind.after = "layer_norm2";
  kind.last = "post_layernorm";
  kind.contrastive = true;
  return kind;
}

}  // namespace

Result<Model> vit_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_image({.prefix = "ViT", .base = "vit"}, config, head, name);
}

Result<Model> deit_model(JsonReader& config, const std::string& head, const std::string& name) {
  const ImageKind kind{.prefix = "DeiT", .base = "deit", .tokens = "cls_token distillation_token"};
  return build_image(kind, config, head, name);
}

Result<Model> vit_msn_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_image({.prefix = "ViTMSN", .base = "vit", .pools = false}, config, head, name);
}

Result<Model> ijepa_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_image({.prefix = "IJepa", .base = "ijepa", .tokens = "", .pools = false}, config,
                     head, name);
}

namespace {

Result<Model> dinov2(ImageKind kind, JsonReader& config, const std::string& head,
                     const std::string& name) {
  kind.tokens = "cls_token mask_token";
  kind.registered = runs;
  kind.halves = "fc1:u fc2:d";
  kind.before = "norm1";
  kind.after = "norm2";
  kind.ratio = true;
  return build_image(kind, config, head, name);
}

}  // namespace

Result<Model> dinov2_model(JsonReader& config, const std::string& head, const std::string& name) {
  return dinov2({.prefix = "Dinov2", .base = "dinov2", .patch = 14}, config, head, name);
}

Result<Model> dinov2_with_registers_model(JsonReader& config, const std::string& head,
                                          const std::string& name) {
  return dinov2(
      {.prefix = "Dinov2WithRegisters", .base = "dinov2_with_registers", .registers = true}, config,
      head, name);
}

Result<Model> clip_vision_model(JsonReader& config, const std::string& head,
                                const std::string& name) {
  ImageKind kind = contrastive("CLIPVision");
  kind.registered = "attention before mlp after";
  kind.patch = 32;
  return build_image(kind, config, head, name);
}

Result<Model> siglip_vision_model(JsonReader& config, const std::string& head,
                                  const std::string& name) {
  ImageKind kind = contrastive("SiglipVision");
  kind.registered = "before attention after mlp";
  kind.tokens = "";
  return build_image(kind, config, head, name);
}

}  // namespace tessera
