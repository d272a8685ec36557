// SPDX-License-Identifier: Apache-2.0
// ViT (arXiv 2010.11929) and its kin.
#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/image_kind.h"

namespace tessera {
namespace {

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

Result<Model> vit_mae_model(JsonReader& config, const std::string& head, const std::string& name) {
  return build_image({.prefix = "ViTMAE", .base = "vit", .pools = false, .masked = true}, config,
                     head, name);
}

Result<Model> beit_model(JsonReader& config, const std::string& head, const std::string& name) {
  ImageKind kind{.prefix = "Beit", .base = "beit", .tokens = "cls_token mask_token"};
  kind.pools = false;
  kind.relative = true;
  return build_image(kind, config, head, name);
}

Result<Model> dinov3_vit_model(JsonReader& config, const std::string& head,
                               const std::string& name) {
  ImageKind kind{.prefix = "DINOv3ViT", .base = "", .tokens = "cls_token mask_token"};
  kind.layers = "layer";
  kind.patches = "patch_embeddings";
  kind.registered = image_parts_run;
  kind.weights = "k_proj:k v_proj:v q_proj:q o_proj:o";
  kind.halves = "up_proj:u down_proj:d";
  kind.before = "norm1";
  kind.after = "norm2";
  kind.last = "norm";
  kind.hidden = 384;
  kind.inner = 1536;
  kind.heads = 6;
  kind.rotary = true;
  return build_image(kind, config, head, name);
}

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
  kind.registered = image_parts_run;
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
