// SPDX-License-Identifier: Apache-2.0
// What ViT (arXiv 2010.11929) and its kin differ in, and the sizes that a config.json gives them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

/// Parts of a block in the order in which they run; some register them so, too.
inline constexpr const char* image_parts_run = "before attention scale1 after mlp scale2";

struct ImageKind {
  std::string prefix, base;
  std::string tokens = "cls_token";  // parameters before the patches, of which "mask_token" is none
  std::string layers = "encoder.layer";
  std::string block = "Layer";
  std::string patches = "patch_embeddings.projection";
  // Parts of a block in the order of registration.
  std::string registered = "attention mlp before after";
  std::string attention = "attention";
  std::string weights = "attention.query:q attention.key:k attention.value:v output.dense:o";
  std::string halves = "intermediate.dense:u output.dense:d";  // of the MLP
  std::string before = "layernorm_before", after = "layernorm_after", last = "layernorm";
  std::int64_t patch = 16, hidden = 768, inner = 3072, heads = 12;
  bool ratio = false;        // the width of the MLP is a multiple of the model's
  bool pools = true;         // without a head
  bool registers = false;    // more tokens, which have no places
  bool contrastive = false;  // CLIP's and SigLIP's embeddings and keys
  bool rotary = false;       // places are no table; a key for each bias (DINOv3, arXiv 2508.10104)
  bool relative = false;     // tables of relative places (BEiT, arXiv 2106.08254)
  bool masked = false;       // patches are left out, and guessed by a decoder (arXiv 2111.06377)
};

/// Blocks that are alike.
struct ImageStack {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 0, head_dim = 0;
};

struct ImageSizes {
  ImageStack encoder, decoder;
  std::int64_t patch = 0, channels = 0, side = 0, patches = 0, seen = 0;  // seen: by the encoder
  std::int64_t pooled = 0, projection = 0, registers = 0, vocabulary = 0;
  std::string biases = "q k v o", mlp_biases = "g u d";
  bool places = true;  // a table of them
  bool tables = false, shared_table = false;
  bool scaled = false;  // what parts add, by a number per element
  bool mean = false;    // of patches, which is normed, in the place of all tokens
  bool mask = false, pooling = false, gated = false, dropout = false;
};

ImageSizes read_image(JsonReader& config, const ImageKind& kind);

Result<Model> build_image(const ImageKind& kind, JsonReader& config, const std::string& head,
                          const std::string& name);

}  // namespace tessera
