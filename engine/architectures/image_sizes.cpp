// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/image_kind.h"

namespace tessera {
namespace {

constexpr std::int64_t most_tokens = 1'000'000;

void read_patches(JsonReader& config, const ImageKind& kind, ImageSizes& s) {
  s.patch = config.integer("patch_size", 1, kind.patch);
  s.channels = config.integer("num_channels", 1, 3);
  const std::int64_t image = config.integer("image_size", 1, 224);
  for (const auto& [key, size] : {std::pair{"image_size", image}, {"patch_size", s.patch}}) {
    if (size > most_tokens) config.fail(key, fmt::format("is {}, more than {}", size, most_tokens));
  }
  if (s.patch > image) {
    config.fail("patch_size", fmt::format("{} is more than image_size {}", s.patch, image));
  }
  s.side = std::min(image, most_tokens) / std::min(s.patch, most_tokens);
  s.patches = s.seen = s.side * s.side;
}

void read_registers(JsonReader& config, std::int64_t least, std::int64_t otherwise, ImageSizes& s) {
  s.registers = config.integer("num_register_tokens", least, otherwise);
  if (s.registers <= most_tokens) return;
  config.fail("num_register_tokens", fmt::format("is {}", s.registers));
}

// SwiGLU keeps two thirds of the width, rounded up to a multiple of 8.
void read_ratio(JsonReader& config, const ImageKind& kind, ImageSizes& s) {
  const std::int64_t ratio = config.integer("mlp_ratio", 1, 4);
  if (ratio > width_max / s.encoder.hidden) {
    return config.fail("mlp_ratio", fmt::format("is {}", ratio));
  }
  s.encoder.inner = s.encoder.hidden * ratio;
  s.gated = config.boolean("use_swiglu_ffn", false);
  if (s.gated) s.encoder.inner = (s.encoder.inner * 2 / 3 + 7) / 8 * 8;
  if (kind.registers) read_registers(config, 1, 4, s);
  s.mask = kind.registers || config.boolean("use_mask_token", true);
}

void read_rotary_image(JsonReader& config, ImageSizes& s) {
  s.biases.clear();
  for (const auto& [key, role, given] : {std::tuple{"query_bias", " q", true},
                                         {"key_bias", " k", false},
                                         {"value_bias", " v", true},
                                         {"proj_bias", " o", true}}) {
    if (config.boolean(key, given)) s.biases += role;
  }
  if (!config.boolean("mlp_bias", true)) s.mlp_biases.clear();
  s.gated = config.boolean("use_gated_mlp", false);
  read_registers(config, 0, 0, s);
  s.mask = s.scaled = true;
  s.places = false;
  if (s.encoder.head_dim % 4 == 0) return;
  config.fail("num_attention_heads",
              fmt::format("{} gives heads of {} elements: heads are rotated by fours of elements",
                          s.encoder.heads, s.encoder.head_dim));
}

void read_beit(JsonReader& config, ImageSizes& s) {
  s.biases = "q v o";
  s.mask = config.boolean("use_mask_token", false);
  s.places = config.boolean("use_absolute_position_embeddings", false);
  s.tables = config.boolean("use_relative_position_bias", false);
  s.shared_table = config.boolean("use_shared_relative_position_bias", false);
  s.mean = config.boolean("use_mean_pooling", true);
  s.scaled = config.not_negative("layer_scale_init_value", 0.1) > 0;
  s.vocabulary = config.integer("vocab_size", 1, 8192);
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
}

// The decoder's blocks, and how many patches the encoder sees.
void read_masked(JsonReader& config, ImageSizes& s) {
  ImageStack& d = s.decoder;
  d.hidden = config.integer("decoder_hidden_size", 1, 512);
  d.inner = config.integer("decoder_intermediate_size", 1, 2048);
  d.layers = blocks_of(config, "decoder_num_hidden_layers", 8);
  d.heads = heads_of(config, "decoder_num_attention_heads", 16, "decoder_hidden_size", d.hidden);
  d.head_dim = d.hidden / d.heads;
  for (const auto& [key, width] :
       {std::pair{"decoder_hidden_size", d.hidden}, {"hidden_size", s.encoder.hidden}}) {
    if (width > width_max) config.fail(key, fmt::format("is {}", width));
    if (width % 4 != 0) config.fail(key, fmt::format("{} is not a multiple of 4", width));
  }
  const double left_out = probability_of(config, "mask_ratio", 0.75);
  s.seen = static_cast<std::int64_t>(static_cast<double>(s.patches) * (1 - left_out));
}

}  // namespace

ImageSizes read_image(JsonReader& config, const ImageKind& kind) {
  ImageSizes s{};
  ImageStack& e = s.encoder;
  e.hidden = config.integer("hidden_size", 1, kind.hidden);
  if (e.hidden > width_max) config.fail("hidden_size", fmt::format("is {}", e.hidden));
  e.layers = blocks_of(config, "num_hidden_layers", 12);
  e.heads = heads_of(config, "num_attention_heads", kind.heads, "hidden_size", e.hidden);
  e.head_dim = e.hidden / e.heads;
  const bool fixed = kind.contrastive || kind.rotary;
  if (!fixed) e.head_dim = config.integer("head_dim", 1, e.head_dim);
  check_heads_width(config, "head_dim", e.head_dim, "num_attention_heads", e.heads);
  read_patches(config, kind, s);
  if (kind.ratio) {
    read_ratio(config, kind, s);
    s.scaled = true;
  } else {
    e.inner = config.integer("intermediate_size", 1, kind.inner);
  }
  if (kind.contrastive) {
    if (!kind.tokens.empty()) s.projection = config.integer("projection_dim", 1, 512);
    s.pooling = kind.tokens.empty() && config.boolean("vision_use_head", true);
    return s;
  }
  if (kind.rotary) {
    read_rotary_image(config, s);
    return s;
  }
  if (kind.relative) {
    read_beit(config, s);
    return s;
  }
  if (!kind.ratio && kind.pools) s.pooled = config.integer("pooler_output_size", 1, e.hidden);
  if (!config.boolean("qkv_bias", true)) s.biases = "o";
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
  if (kind.masked) read_masked(config, s);
  return s;
}

}  // namespace tessera
