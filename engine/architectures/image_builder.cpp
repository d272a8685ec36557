// SPDX-License-Identifier: Apache-2.0
// A sample is an image, whatever the length of a sequence.
#include <fmt/format.h>

#include <map>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/image_kind.h"

namespace tessera {
namespace {

// What is gathered keeps where it was for each element.
constexpr std::int64_t places_bytes = 8;

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
    describe_encoder(w_.model(), 0, s_.encoder.heads, s_.encoder.heads * s_.encoder.head_dim);
    w_.container(kind_.base, kind_.prefix + (kind_.contrastive ? "Transformer" : "Model"));
    for (const char* part :
         {"Embeddings", "Encoder", "Intermediate", "Output", "Pooler", "Decoder"}) {
      std::string path = part;
      path[0] = static_cast<char>(path[0] - 'A' + 'a');
      w_.container(path, kind_.prefix + part);
    }
    w_.container("attention", kind_.prefix + "SelfAttention");
    kind_.contrastive ? contrastive_embeddings() : embeddings();
    if (s_.shared_table) relative_table(base_ + "encoder.relative_position_bias");
    for (std::int64_t k = 0; k < s_.encoder.layers; ++k) {
      block(base_ + kind_.layers + "." + std::to_string(k), s_.encoder, tokens());
    }
    const bool one = kind_.contrastive && tokens_ > 0;  // of CLIP only the class is normed
    if (!s_.mean) {
      const ModuleId id = w_.norm(base_ + kind_.last, NormKind::layer, s_.encoder.hidden);
      run(id, one ? 1 : tokens());
    }
    finish();
    return w_.take();
  }

 private:
  std::int64_t tokens() const { return s_.seen + tokens_ + s_.registers; }

  void run(ModuleId id, std::int64_t length) {
    fix_length(w_.tree().module(id).cost, length);
    w_.runs(id);
  }

  void finish() {
    const std::int64_t hidden = s_.encoder.hidden;
    if (s_.pooling) return attention_pooling();
    if (head_ == "ForPreTraining") return decoder();
    if (head_ == "ForMaskedImageModeling") {
      run(w_.norm("layernorm", NormKind::layer, hidden), tokens());
      return run(w_.linear("lm_head", hidden, s_.vocabulary, true), s_.patches);
    }
    if (s_.mean) run(w_.norm(base_ + "pooler.layernorm", NormKind::layer, hidden), 1);
    if (head_ == "ModelWithProjection") {
      run(w_.linear("visual_projection", hidden, s_.projection, false), 1);
    } else if (head_ == "Model") {
      if (s_.pooled > 0) run(w_.linear(base_ + "pooler.dense", hidden, s_.pooled, true), 1);
    } else if (head_ == "ForImageClassificationWithTeacher") {
      for (const char* name : {"cls_classifier", "distillation_classifier"}) {
        run(w_.linear(name, hidden, labels_, true), 1);
      }
    } else {  // DINOv2's reads the mean of the patches beside the class
      run(w_.linear("classifier", hidden * (kind_.ratio ? 2 : 1), labels_, true), 1);
    }
  }

  // Guesses the patches that the encoder has not seen.
  void decoder() {
    const ImageStack& d = s_.decoder;
    const std::int64_t all = s_.patches + tokens_;
    w_.enter("decoder");
    w_.tree().parameter("mask_token", {1, 1, d.hidden});
    w_.tree().parameter("decoder_pos_embed", {1, all, d.hidden});
    w_.model().parameters.back().requires_grad = false;
    const ModuleId first = w_.linear("decoder.decoder_embed", s_.encoder.hidden, d.hidden, true);
    run(first, tokens());
    keep(first, places_bytes * s_.patches * d.hidden);
    for (std::int64_t k = 0; k < d.layers; ++k) {
      block("decoder.decoder_layers." + std::to_string(k), d, all);
    }
    run(w_.norm("decoder.decoder_norm", NormKind::layer, d.hidden), all);
    const std::int64_t pixels = s_.patch * s_.patch * s_.channels;
    const ModuleId last = w_.linear("decoder.decoder_pred", d.hidden, pixels, true);
    run(last, all);
    keep(last, 2 * s_.patches * pixels);  // by the loss: how far it is off
  }

  void keep(ModuleId id, std::int64_t bytes) {
    w_.tree().module(id).cost.activation_bytes.constant += static_cast<double>(bytes);
  }

  void convolution(const std::string& name, bool bias) {
    TreeBuilder& tree = w_.tree();
    tree.open(name, "Conv2d");
    tree.parameter("weight", {s_.encoder.hidden, s_.channels, s_.patch, s_.patch});
    if (bias) tree.parameter("bias", {s_.encoder.hidden});
    tree.close();
  }

  // One piece of work: patches are projected, tokens are put before them, positions are added.
  void run_embeddings() {
    const ModuleId id = w_.model().find_module(base_ + "embeddings");
    ModuleCost& cost = w_.tree().module(id).cost;
    cost = linear_cost({s_.channels * s_.patch * s_.patch, s_.encoder.hidden});
    cost.elementwise_bytes = per_token(5 * element * static_cast<double>(s_.encoder.hidden));
    run(id, s_.patches);
    if (kind_.masked) keep(id, places_bytes * s_.seen * s_.encoder.hidden);
  }

  void embeddings() {
    w_.enter(base_ + "embeddings");
    TreeBuilder& tree = w_.tree();
    const std::int64_t hidden = s_.encoder.hidden;
    for (const std::string& word : words_of(kind_.tokens)) {
      const bool flat = word == "mask_token" && kind_.ratio;
      if (word == "mask_token" && !s_.mask) continue;
      tree.parameter(word, flat ? std::vector{std::int64_t{1}, hidden}
                                : std::vector{std::int64_t{1}, std::int64_t{1}, hidden});
    }
    if (s_.places) {
      tree.parameter("position_embeddings", {1, s_.patches + tokens_, hidden});
      if (kind_.masked) w_.model().parameters.back().requires_grad = false;
    }
    if (s_.registers > 0) tree.parameter("register_tokens", {1, s_.registers, hidden});
    const auto dot = kind_.patches.find('.');
    if (dot != std::string::npos) {
      tree.open(kind_.patches.substr(0, dot), kind_.prefix + "PatchEmbeddings");
    }
    convolution(kind_.patches.substr(dot == std::string::npos ? 0 : dot + 1), true);
    if (dot != std::string::npos) tree.close();
    run_embeddings();
  }

  void contrastive_embeddings() {
    w_.enter(base_ + "embeddings");
    if (tokens_ > 0) w_.tree().parameter("class_embedding", {s_.encoder.hidden});
    convolution("patch_embedding", tokens_ == 0);
    w_.tree().leaf("position_embedding", "Embedding", {tokens(), s_.encoder.hidden});
    run_embeddings();
    if (tokens_ > 0) {
      run(w_.norm(base_ + "pre_layrnorm", NormKind::layer, s_.encoder.hidden), tokens());
    }
  }

  // A learned query looks at all patches (SigLIP, arXiv 2303.15343).
  void attention_pooling() {
    const std::int64_t hidden = s_.encoder.hidden;
    w_.container("head", kind_.prefix + "MultiheadAttentionPoolingHead");
    w_.enter(base_ + "head");
    TreeBuilder& tree = w_.tree();
    tree.parameter("probe", {1, 1, hidden});
    tree.open("attention", "MultiheadAttention");
    tree.parameter("in_proj_weight", {3 * hidden, hidden});
    tree.parameter("in_proj_bias", {3 * hidden});
    tree.linear("out_proj", hidden, hidden, true);
    tree.close();
    const ModuleId id = w_.model().find_module(base_ + "head.attention");
    const auto h = static_cast<double>(hidden);
    const auto patches = static_cast<double>(s_.patches);
    ModuleCost& cost = w_.tree().module(id).cost;
    cost.matmul_flops = {4 * h * h * (patches + 1), 0, 0};
    cost.attention_flops = {4 * h * patches, 0, 0};
    cost.activation_bytes = {2 * element * h * patches, 0, 0};
    cost.elementwise_bytes = {4 * element * h * patches, 0, 0};
    w_.runs(id);
    run(w_.norm(base_ + "head.layernorm", NormKind::layer, hidden), 1);
    run(w_.mlp(base_ + "head.mlp", mlp(s_.encoder), hidden, false, false), 1);
  }

  MlpPart mlp(const ImageStack& stack) const {
    if (s_.gated) {
      return {.class_name = kind_.prefix + "SwiGLUFFN",
              .weights = "gate_proj:g up_proj:u down_proj:d",
              .biases = s_.mlp_biases,
              .inner = stack.inner};
    }
    return {.weights = kind_.halves, .biases = s_.mlp_biases, .inner = stack.inner};
  }

  // A row for each distance within an image, and three for the class.
  void relative_table(const std::string& path) {
    const std::int64_t wide = 2 * s_.side - 1;
    w_.container(path.substr(path.rfind('.') + 1), kind_.prefix + "RelativePositionBias");
    w_.enter(path);
    w_.tree().parameter("relative_position_bias_table", {wide * wide + 3, s_.encoder.heads});
  }

  ModuleId attention(const std::string& path, const ImageStack& stack) {
    const AttentionPart part{.class_name = kind_.prefix + "Attention",
                             .weights = kind_.weights,
                             .biases = s_.biases,
                             .heads = stack.heads,
                             .key_value_heads = stack.heads,
                             .head_dim = stack.head_dim,
                             .rotary = kind_.rotary,
                             .causal = false};
    const std::string at = path + "." + kind_.attention;
    const ModuleId id = w_.attention(at, part, stack.hidden, false, s_.dropout);
    if (s_.tables) relative_table(at + ".attention.relative_position_bias");
    return id;
  }

  std::vector<ModuleId> part(const std::string& word, const std::string& path,
                             const ImageStack& stack) {
    if (word == "before" || word == "after") {
      const std::string& name = word == "before" ? kind_.before : kind_.after;
      return {w_.norm(path + "." + name, NormKind::layer, stack.hidden)};
    }
    if (word == "attention") return {attention(path, stack)};
    if (word == "mlp" && kind_.halves.starts_with("intermediate")) {
      return w_.mlp_halves(path, mlp(stack), stack.hidden, s_.dropout);
    }
    if (word == "mlp") {
      return {w_.mlp(path + ".mlp", mlp(stack), stack.hidden, false, s_.dropout)};
    }
    // A number per element, that what a part adds is multiplied with.
    w_.enter(path);
    const std::string name = word == "scale1" ? "layer_scale1" : "layer_scale2";
    const ModuleId id = w_.tree().open(name, kind_.prefix + "LayerScale");
    w_.tree().parameter("lambda1", {stack.hidden});
    w_.tree().close();
    scale(id, stack);
    return {id};
  }

  // What such a number costs, on top of what `id` does.
  void scale(ModuleId id, const ImageStack& stack) {
    const auto h = static_cast<double>(stack.hidden);
    w_.tree().module(id).cost.activation_bytes.linear += element * h;
    w_.tree().module(id).cost.elementwise_bytes.linear += 2 * element * h;
  }

  void block(const std::string& path, const ImageStack& stack, std::int64_t length) {
    w_.begin_block(path, kind_.prefix + kind_.block, stack.hidden);
    const auto kept = static_cast<double>(length) * element * static_cast<double>(stack.hidden);
    w_.tree().module(w_.model().find_module(path)).checkpoint_bytes = {kept, 0, 0};
    const bool own = s_.scaled && kind_.relative;  // its own parameters
    if (own) {
      for (const char* name : {"lambda_1", "lambda_2"}) w_.tree().parameter(name, {stack.hidden});
    }
    std::map<std::string, std::vector<ModuleId>> parts;
    for (const std::string& word : words_of(kind_.registered)) {
      parts[word] = part(word, path, stack);
    }
    if (own) {
      for (const char* word : {"attention", "mlp"}) scale(parts[word].back(), stack);
    }
    for (const std::string& word : words_of(image_parts_run)) {
      for (const ModuleId id : parts[word]) run(id, length);
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

}  // namespace

Result<Model> build_image(const ImageKind& kind, JsonReader& config, const std::string& head,
                          const std::string& name) {
  const ImageSizes sizes = read_image(config, kind);
  TESSERA_ASSIGN(Model model, built<ImageBuilder>(config, head, name, kind, sizes));
  if (sizes.tables || sizes.shared_table) {
    constexpr double mebi = 1024.0 * 1024;
    const auto tokens = static_cast<double>(sizes.patches + 1);
    const double pairs = element * static_cast<double>(sizes.encoder.heads) * tokens * tokens;
    add_note(model, fmt::format("biases of relative positions of {} are not counted: about {:.1f} "
                                "MiB {}, whatever the batch is",
                                kind.prefix, pairs / mebi,
                                sizes.tables ? "for each block" : "for all blocks"));
  }
  return model;
}

}  // namespace tessera
