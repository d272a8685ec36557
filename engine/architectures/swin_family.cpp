// SPDX-License-Identifier: Apache-2.0
// Swin (arXiv 2103.14030): an image in stages of which each has half the side and twice the width;
// blocks attend within windows, which are shifted in every second block.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/encoder_parts.h"

namespace tessera {
namespace {

constexpr std::int64_t most_width = std::int64_t{1} << 30;
constexpr std::int64_t most_side = 1'000'000;

struct SwinStage {
  std::int64_t width = 0, inner = 0, depth = 0, heads = 0;
  std::int64_t side = 0, padded = 0;  // in patches; padded to whole windows
};

struct SwinSizes {
  std::int64_t patch = 0, channels = 0, window = 0, stride = 0;
  std::vector<SwinStage> stages = {};
  bool bias = true, places = false, dropout = false;
};

// A list of numbers above 0, as long as `like` unless that is 0.
std::vector<std::int64_t> list_of(JsonReader& config, const char* key,
                                  std::vector<std::int64_t> otherwise, std::size_t like) {
  constexpr std::size_t longest = 16;
  constexpr std::int64_t most = 100'000;
  if (config.has(key)) {
    const nlohmann::json& list = config.json()[key];
    const bool good = list.is_array() && !list.empty() && list.size() <= longest &&
                      std::all_of(list.begin(), list.end(), [](const nlohmann::json& one) {
                        return one.is_number_unsigned() && one > 0 && one <= most;
                      });
    if (!good) {
      config.fail(key,
                  fmt::format("must be a list of 1 to {} numbers from 1 to {}", longest, most));
      return {};
    }
    otherwise = list.get<std::vector<std::int64_t>>();
  }
  if (like > 0 && otherwise.size() != like) {
    config.fail(key, fmt::format("has {} numbers, and depths has {}", otherwise.size(), like));
    return {};
  }
  return otherwise;
}

// Halves the side and doubles the width from stage to stage.
void read_stages(JsonReader& config, std::int64_t width, std::int64_t side, double ratio,
                 SwinSizes& s) {
  const auto depths = list_of(config, "depths", {2, 2, 6, 2}, 0);
  const bool other = !config.has("num_heads") && config.has("num_attention_heads");
  const auto heads =
      list_of(config, other ? "num_attention_heads" : "num_heads", {3, 6, 12, 24}, depths.size());
  if (!config.status().ok()) return;
  for (std::size_t k = 0; k < depths.size(); ++k) {
    SwinStage stage{.width = width, .depth = depths[k], .heads = heads[k], .side = side};
    const double inner = ratio * static_cast<double>(width);
    if (width > most_width || inner < 1 || inner > static_cast<double>(most_width)) {
      return config.fail("embed_dim", fmt::format("and mlp_ratio give stage {} a width of {} and "
                                                  "an MLP of {}",
                                                  k + 1, width, inner));
    }
    stage.inner = static_cast<std::int64_t>(inner);
    if (width % stage.heads != 0) {
      return config.fail("num_heads", fmt::format("{} do not divide the width {} of stage {}",
                                                  stage.heads, width, k + 1));
    }
    if (side < s.window) {
      return config.fail("window_size",
                         fmt::format("{0} is more than the {1} x {1} patches of stage {2}, where "
                                     "transformers' biases of {0} x {0} do not fit",
                                     s.window, side, k + 1));
    }
    stage.padded = (side + s.window - 1) / s.window * s.window;
    s.stages.push_back(stage);
    width *= 2;
    side = (side + 1) / 2;
  }
  // Files repeat what follows from those.
  const auto stages = static_cast<std::int64_t>(depths.size());
  for (const auto& [key, size] : {std::pair{"num_layers", stages},
                                  {"num_hidden_layers", stages},
                                  {"hidden_size", s.stages.back().width}}) {
    if (config.integer(key, 1, size) == size) continue;
    config.fail(key, fmt::format("must be {}, which follows from depths and embed_dim: leave it "
                                 "out",
                                 size));
  }
}

SwinSizes read_swin(JsonReader& config) {
  SwinSizes s{};
  s.patch = config.integer("patch_size", 1, 4);
  s.channels = config.integer("num_channels", 1, 3);
  s.window = config.integer("window_size", 1, 7);
  s.stride = config.integer("encoder_stride", 1, 32);
  const std::int64_t image = config.integer("image_size", 1, 224);
  for (const auto& [key, size] : {std::pair{"image_size", image},
                                  {"patch_size", s.patch},
                                  {"num_channels", s.channels},
                                  {"window_size", s.window},
                                  {"encoder_stride", s.stride}}) {
    if (size > most_side) config.fail(key, fmt::format("is {}, more than {}", size, most_side));
  }
  if (s.patch > image || image % s.patch != 0) {
    config.fail("image_size", fmt::format("{} is not a multiple of patch_size {}", image, s.patch));
  }
  s.bias = config.boolean("qkv_bias", true);
  s.places = config.boolean("use_absolute_embeddings", false);
  s.dropout = probability_of(config, "hidden_dropout_prob", 0) > 0;
  const double ratio = config.positive("mlp_ratio", 4);
  const std::int64_t width = config.integer("embed_dim", 1, 96);
  if (config.status().ok()) read_stages(config, width, image / s.patch, ratio, s);
  return s;
}

class SwinBuilder {
 public:
  SwinBuilder(const SwinSizes& sizes, const std::string& head, std::int64_t labels,
              const std::string& name, DType dtype)
      : s_(sizes),
        head_(head),
        labels_(labels),
        base_(head == "Model" ? "" : "swin."),
        w_(name, "Swin" + head, "Swin", dtype) {}

  Model build() {
    describe_encoder(w_.model(), 0, s_.stages[0].heads, s_.stages[0].width);
    for (const auto& [path, its_class] : {std::pair{"swin", "SwinModel"},
                                          {"embeddings", "SwinEmbeddings"},
                                          {"patch_embeddings", "SwinPatchEmbeddings"},
                                          {"encoder", "SwinEncoder"},
                                          {"downsample", "SwinPatchMerging"},
                                          {"decoder", "Sequential"}}) {
      w_.container(path, its_class);
    }
    embeddings();
    for (std::size_t k = 0; k < s_.stages.size(); ++k) stage(k);
    const SwinStage& last = s_.stages.back();
    run(w_.norm(base_ + "layernorm", NormKind::layer, last.width), last.side * last.side);
    if (head_ == "ForImageClassification") {
      run(w_.linear("classifier", last.width, labels_, true), 1);
    } else if (head_ == "ForMaskedImageModeling") {
      const std::int64_t pixels = s_.stride * s_.stride * s_.channels;
      convolution("decoder", "0", last.width, pixels, 1);
      run_convolution("decoder.0", last.width, pixels, last.side * last.side);
    }
    return w_.take();
  }

 private:
  ModuleCost& cost(ModuleId id) { return w_.tree().module(id).cost; }

  void run(ModuleId id, std::int64_t length) {
    fix_length(cost(id), length);
    w_.runs(id);
  }

  void convolution(const std::string& at, const std::string& name, std::int64_t in,
                   std::int64_t out, std::int64_t side) {
    w_.enter(at);
    w_.tree().open(name, "Conv2d");
    w_.tree().parameter("weight", {out, in, side, side});
    w_.tree().parameter("bias", {out});
    w_.tree().close();
  }

  void run_convolution(const std::string& path, std::int64_t in, std::int64_t out,
                       std::int64_t length) {
    const ModuleId id = w_.model().find_module(path);
    cost(id) = linear_cost({in, out});
    cost(id).elementwise_bytes = per_token(2 * element * static_cast<double>(out));
    run(id, length);
  }

  void embeddings() {
    const SwinStage& first = s_.stages[0];
    const std::int64_t patches = first.side * first.side;
    const std::string at = base_ + "embeddings";
    w_.enter(at);
    if (head_ == "ForMaskedImageModeling") w_.tree().parameter("mask_token", {1, 1, first.width});
    if (s_.places) w_.tree().parameter("position_embeddings", {1, patches, first.width});
    convolution(at + ".patch_embeddings", "projection", s_.channels, first.width, s_.patch);
    const ModuleId norm = w_.norm(at + ".norm", NormKind::layer, first.width);
    run_convolution(at + ".patch_embeddings.projection", s_.channels * s_.patch * s_.patch,
                    first.width, patches);
    run(norm, patches);
    if (s_.dropout) keep(norm, patches * first.width);
  }

  void keep(ModuleId id, std::int64_t bytes) {
    cost(id).activation_bytes.constant += static_cast<double>(bytes);
  }

  ModuleId attention(const std::string& path, const SwinStage& stage, bool shifted) {
    const AttentionPart part{.class_name = "SwinAttention",
                             .biases = s_.bias ? "q k v o" : "o",
                             .heads = stage.heads,
                             .key_value_heads = stage.heads,
                             .head_dim = stage.width / stage.heads,
                             .rotary = false,
                             .causal = false};
    const ModuleId id = w_.attention(path + ".attention", part, stage.width, false, s_.dropout);
    w_.container("relative_position_bias", "SwinRelativePositionBias");
    w_.enter(path + ".attention.relative_position_bias");
    const std::int64_t distances = 2 * s_.window - 1;
    w_.tree().parameter("relative_position_bias_table", {distances * distances, stage.heads});
    // Each token attends to its window.
    const auto area = static_cast<double>(s_.window * s_.window);
    cost(id).attention_flops = per_token(4 * static_cast<double>(stage.width) * area);
    // Windows that were shifted have each a mask, to which the biases are added.
    if (shifted) {
      cost(id).activation_bytes.linear += element * static_cast<double>(stage.heads) * area;
      cost(id).elementwise_bytes.linear += 2 * element * static_cast<double>(stage.heads) * area;
    }
    fix_length(cost(id), stage.padded * stage.padded);
    return id;
  }

  void stage(std::size_t number) {
    const SwinStage& stage = s_.stages[number];
    const std::string at = base_ + "encoder.layers." + std::to_string(number);
    w_.container(at, "SwinStage");
    for (std::int64_t k = 0; k < stage.depth; ++k) {
      block(at + ".blocks." + std::to_string(k), stage, k % 2 == 1);
    }
    if (number + 1 == s_.stages.size()) return;
    const std::int64_t half = (stage.side + 1) / 2;
    const ModuleId down =
        w_.linear(at + ".downsample.reduction", 4 * stage.width, 2 * stage.width, false);
    run(w_.norm(at + ".downsample.norm", NormKind::layer, 4 * stage.width), half * half);
    run(down, half * half);
  }

  void block(const std::string& path, const SwinStage& stage, bool second) {
    const std::int64_t patches = stage.side * stage.side;
    w_.begin_block(path, "SwinLayer", stage.width);
    w_.tree().module(w_.model().find_module(path)).checkpoint_bytes = {
        static_cast<double>(patches * stage.width) * element, 0, 0};
    const bool shifted = second && stage.side > s_.window && s_.window > 1;
    const ModuleId self = attention(path, stage, shifted);
    const ModuleId before = w_.norm(path + ".layernorm_before", NormKind::layer, stage.width);
    const ModuleId after = w_.norm(path + ".layernorm_after", NormKind::layer, stage.width);
    const MlpPart part{.weights = "fc1:u fc2:d", .biases = "u d", .inner = stage.inner};
    const ModuleId mlp = w_.mlp(path + ".mlp", part, stage.width, false, s_.dropout);
    run(before, patches);
    w_.runs(self);
    run(after, patches);
    run(mlp, patches);
  }

  const SwinSizes s_;
  const std::string head_;
  const std::int64_t labels_;
  const std::string base_;
  PartWriter w_;
};

}  // namespace

Result<Model> swin_model(JsonReader& config, const std::string& head, const std::string& name) {
  return built<SwinBuilder>(config, head, name, read_swin(config));
}

}  // namespace tessera
