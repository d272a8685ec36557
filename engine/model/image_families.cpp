// SPDX-License-Identifier: Apache-2.0
// ViT (arXiv 2010.11929): a sample is an image, whatever the length of a sequence.
#include <fmt/format.h>

#include "engine/model/encoder_parts.h"
#include "engine/model/family.h"

namespace tessera {
namespace {

struct ViTSizes {
  std::int64_t hidden, inner, layers, heads, head_dim, patch, channels, patches, pooled;
  bool qkv_bias, dropout;
};

ViTSizes read_vit(JsonReader& config) {
  ViTSizes s{};
  s.hidden = config.integer("hidden_size", 1, 768);
  s.inner = config.integer("intermediate_size", 1, 3072);
  s.layers = blocks_of(config, "num_hidden_layers", 12);
  s.heads = heads_of(config, "num_attention_heads", 12, "hidden_size", s.hidden);
  s.head_dim = config.integer("head_dim", 1, s.hidden / s.heads);
  constexpr std::int64_t widest = std::int64_t{1} << 40;
  if (s.head_dim > widest / s.heads) {
    config.fail("head_dim", fmt::format("{} times num_attention_heads {} is more than {}",
                                        s.head_dim, s.heads, widest));
  }
  s.patch = config.integer("patch_size", 1, 16);
  s.channels = config.integer("num_channels", 1, 3);
  s.pooled = config.integer("pooler_output_size", 1, s.hidden);
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
  s.qkv_bias = config.boolean("qkv_bias", true);
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
  return s;
}

class ViTBuilder {
 public:
  ViTBuilder(const ViTSizes& sizes, const std::string& head, std::int64_t labels,
             const std::string& name, DType dtype)
      : s_(sizes),
        labels_(labels),
        whole_(head == "Model"),
        base_(head == "Model" ? "" : "vit."),
        w_(name, "ViT" + head, "ViT", dtype) {}

  Model build() {
    describe_encoder(w_.model(), 0, s_.heads, s_.heads * s_.head_dim);
    w_.container("vit", "ViTModel");
    w_.container(base_ + "embeddings", "ViTEmbeddings");
    w_.container(base_ + "encoder", "ViTEncoder");
    w_.container("attention", "ViTSelfAttention");
    w_.container("intermediate", "ViTIntermediate");
    w_.container("output", "ViTOutput");
    w_.container("pooler", "ViTPooler");
    embeddings();
    for (std::int64_t k = 0; k < s_.layers; ++k) block(k);
    run(w_.norm(base_ + "layernorm", NormKind::layer, s_.hidden), tokens());
    if (whole_) run(w_.linear("pooler.dense", s_.hidden, s_.pooled, true), 1);
    if (!whole_) run(w_.linear("classifier", s_.hidden, labels_, true), 1);
    return w_.take();
  }

 private:
  std::int64_t tokens() const { return s_.patches + 1; }

  void run(ModuleId id, std::int64_t length) {
    fix_length(w_.tree().module(id).cost, length);
    w_.runs(id);
  }

  // One piece of work: patches are projected, a token is put before them, positions are added.
  void embeddings() {
    w_.enter(base_ + "embeddings");
    TreeBuilder& tree = w_.tree();
    tree.parameter("cls_token", {1, 1, s_.hidden});
    tree.parameter("position_embeddings", {1, tokens(), s_.hidden});
    tree.open("patch_embeddings", "ViTPatchEmbeddings");
    tree.open("projection", "Conv2d");
    tree.parameter("weight", {s_.hidden, s_.channels, s_.patch, s_.patch});
    tree.parameter("bias", {s_.hidden});
    tree.close();
    tree.close();
    const ModuleId id = w_.model().find_module(base_ + "embeddings");
    ModuleCost& cost = tree.module(id).cost;
    cost = linear_cost({s_.channels * s_.patch * s_.patch, s_.hidden});
    cost.elementwise_bytes = per_token(5 * element * static_cast<double>(s_.hidden));
    run(id, s_.patches);
  }

  void block(std::int64_t number) {
    const std::string path = base_ + "encoder.layer." + std::to_string(number);
    w_.begin_block(path, "ViTLayer", s_.hidden);
    const auto kept = static_cast<double>(tokens()) * element * static_cast<double>(s_.hidden);
    w_.tree().module(w_.model().find_module(path)).checkpoint_bytes = {kept, 0, 0};
    const AttentionPart part{.class_name = "ViTAttention",
                             .weights =
                                 "attention.query:q attention.key:k attention.value:v "
                                 "output.dense:o",
                             .biases = s_.qkv_bias ? "q k v o" : "o",
                             .heads = s_.heads,
                             .key_value_heads = s_.heads,
                             .head_dim = s_.head_dim,
                             .rotary = false,
                             .causal = false};
    const ModuleId attention =
        w_.attention(path + ".attention", part, s_.hidden, false, s_.dropout);
    const MlpPart mlp{
        .weights = "intermediate.dense:u output.dense:d", .biases = "u d", .inner = s_.inner};
    const auto halves = w_.mlp_halves(path, mlp, s_.hidden, s_.dropout);
    const ModuleId before = w_.norm(path + ".layernorm_before", NormKind::layer, s_.hidden);
    const ModuleId after = w_.norm(path + ".layernorm_after", NormKind::layer, s_.hidden);
    for (const ModuleId id : {before, attention, after, halves[0], halves[1]}) run(id, tokens());
  }

  const ViTSizes s_;
  const std::int64_t labels_;
  const bool whole_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> vit_model(JsonReader& config, const std::string& head, const std::string& name) {
  const ViTSizes sizes = read_vit(config);
  const std::int64_t labels = labels_of(config);
  const DType dtype = encoder_dtype(config);
  TESSERA_TRY(config.status());
  return checked(ViTBuilder(sizes, head, labels, name, dtype).build(), config);
}

}  // namespace tessera
