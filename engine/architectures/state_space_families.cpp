// SPDX-License-Identifier: Apache-2.0
// Decoders with selective state spaces (Mamba, arXiv 2312.00752; Mamba-2, arXiv 2405.21060), alone
// and beside attention.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/expert_keys.h"
#include "engine/architectures/family.h"
#include "engine/architectures/mixer_keys.h"
#include "engine/text/words.h"

namespace tessera {
namespace {

// A whole number, or what "auto" stands for.
std::int64_t size_or_auto(JsonReader& config, const char* key, std::int64_t automatic) {
  if (config.has(key) && config.json()[key] == "auto") return automatic;
  return std::min(config.integer(key, 1, automatic), widest_state);
}

// How many times wider the state is than the model.
std::int64_t expanded(JsonReader& config, const char* key, const Blueprint& b) {
  const std::int64_t expand = config.integer(key, 1, 2);
  if (expand <= widest_state / std::min(b.sizes.hidden, widest_state))
    return expand * b.sizes.hidden;
  config.fail(key, fmt::format("{} times hidden_size {} is more than {}", expand, b.sizes.hidden,
                               widest_state));
  return 1;
}

// What the first Mamba and those who took it over call its sizes.
struct FirstKeys {
  const char *state, *width, *expand, *rank, *bias, *convolution_bias;
  bool norms = false;           // of steps and of both projections of the state
  const char* inner = nullptr;  // what beats the expanded width
};

void read_first(JsonReader& config, Blueprint& b, const FirstKeys& keys) {
  const std::int64_t hidden = b.sizes.hidden;
  const std::int64_t expanded_width = expanded(config, keys.expand, b);
  const std::int64_t inner =
      keys.inner == nullptr ? expanded_width
                            : std::min(config.integer(keys.inner, 1, expanded_width), widest_state);
  const std::int64_t state = std::min(config.integer(keys.state, 1, 16), widest_state);
  const std::int64_t width = std::min(config.integer(keys.width, 1, 4), widest_state);
  const std::int64_t rank = size_or_auto(config, keys.rank, (hidden + 15) / 16);
  const bool bias = config.boolean(keys.bias, false);
  b.mixer.tensors = {{"A_log", TensorKind::matrix, inner, state},
                     {"D", TensorKind::vector, inner},
                     {"conv1d", TensorKind::convolution, inner, width,
                      config.boolean(keys.convolution_bias, true)},
                     {"in_proj", TensorKind::linear, 2 * inner, hidden, bias},
                     {"x_proj", TensorKind::linear, rank + 2 * state, inner},
                     {"dt_proj", TensorKind::linear, inner, rank, true},
                     {"out_proj", TensorKind::linear, hidden, inner, bias}};
  if (keys.norms) {
    for (const auto& [name, size] :
         {std::pair{"dt_layernorm", rank}, {"b_layernorm", state}, {"c_layernorm", state}}) {
      b.mixer.tensors.push_back({name, TensorKind::norm, size});
    }
  }
  b.mixer.scan_flops = 2 * as_double(inner) * as_double(state);
  // Both halves of the projection, what x_proj gives, the scan's output.
  b.mixer.kept = 3 * as_double(inner) + as_double(rank + 2 * state);
}

constexpr FirstKeys mamba_keys{"state_size", "conv_kernel",   "expand", "time_step_rank",
                               "use_bias",   "use_conv_bias", false,    "intermediate_size"};
constexpr FirstKeys jamba_keys{"mamba_d_state",
                               "mamba_d_conv",
                               "mamba_expand",
                               "mamba_dt_rank",
                               "mamba_proj_bias",
                               "mamba_conv_bias",
                               true};

void read_mamba(JsonReader& config, Blueprint& b) { read_first(config, b, mamba_keys); }

// Sizes of Mamba-2.
struct SecondSizes {
  std::int64_t inner, heads, head_dim, groups, state, width, chunk;
  bool bias, out_bias, convolution_bias, norm = true;
};

void build_second(JsonReader& config, Blueprint& b, const SecondSizes& s) {
  for (const std::int64_t size : {s.heads, s.head_dim, s.groups, s.state, s.width, s.chunk}) {
    if (size <= widest_state && s.inner <= widest_state) continue;
    return config.fail(config.has("state_size") ? "state_size" : "mamba_d_state",
                       "or another size of the state is too large");
  }
  if (s.heads * s.head_dim != s.inner) {
    return config.fail(
        config.has("num_heads") ? "num_heads" : "mamba_n_heads",
        fmt::format("{} times a width of {} is not the state's {}", s.heads, s.head_dim, s.inner));
  }
  const std::int64_t channels = s.inner + 2 * s.groups * s.state;
  b.mixer.tensors = {
      {"dt_bias", TensorKind::vector, s.heads},
      {"A_log", TensorKind::vector, s.heads},
      {"D", TensorKind::vector, s.heads},
      {"conv1d", TensorKind::convolution, channels, s.width, s.convolution_bias},
      {"in_proj", TensorKind::linear, s.inner + channels + s.heads, b.sizes.hidden, s.bias}};
  if (s.norm) b.mixer.tensors.push_back({"norm", TensorKind::norm, s.inner});
  b.mixer.tensors.push_back({"out_proj", TensorKind::linear, b.sizes.hidden, s.inner, s.out_bias});
  // Within a chunk as attention, between chunks by states.
  b.mixer.scan_flops = 2 * as_double(s.heads) *
                       (as_double(s.chunk) * as_double(s.state + s.head_dim) +
                        2 * as_double(s.state) * as_double(s.head_dim));
  // The whole projection, the scan's output, and that behind its norm.
  b.mixer.kept = as_double(2 * s.inner + 2 * s.groups * s.state + s.heads) +
                 (s.norm ? 2 : 1) * as_double(s.inner);
}

void read_mamba2(JsonReader& config, Blueprint& b) {
  SecondSizes s{};
  s.inner = expanded(config, "expand", b);
  s.heads = config.integer("num_heads", 1, 128);
  s.head_dim = config.integer("head_dim", 1, 64);
  s.groups = config.integer("n_groups", 1, 8);
  s.state = config.integer("state_size", 1, 128);
  s.width = config.integer("conv_kernel", 1, 4);
  s.chunk = config.integer("chunk_size", 1, 256);
  s.bias = s.out_bias = config.boolean("use_bias", false);
  s.convolution_bias = config.boolean("use_conv_bias", true);
  build_second(config, b, s);
}

SecondSizes read_beside_attention(JsonReader& config, std::int64_t inner) {
  SecondSizes s{};
  s.inner = inner;
  s.heads = config.integer("mamba_n_heads", 1, 128);
  s.head_dim = size_or_auto(config, "mamba_d_head", std::max<std::int64_t>(1, inner / s.heads));
  s.groups = config.integer("mamba_n_groups", 1, 1);
  s.state = config.integer("mamba_d_state", 1, 256);
  s.width = config.integer("mamba_d_conv", 1, 4);
  s.chunk = config.integer("mamba_chunk_size", 1, 256);
  s.bias = s.out_bias = config.boolean("mamba_proj_bias", false);
  s.convolution_bias = config.boolean("mamba_conv_bias", true);
  return s;
}

void read_bamba(JsonReader& config, Blueprint& b) {
  build_second(config, b, read_beside_attention(config, expanded(config, "mamba_expand", b)));
  b.mixer_blocks.assign(static_cast<std::size_t>(b.sizes.layers), true);
  if (config.has("attn_layer_indices")) {
    mark_blocks(config, "attn_layer_indices", false, b.mixer_blocks);
  }
}

void read_falcon_h1(JsonReader& config, Blueprint& b) {
  const bool null = config.json().contains("mamba_d_ssm") && !config.has("mamba_d_ssm");
  const std::int64_t wide = expanded(config, "mamba_expand", b);
  SecondSizes s =
      read_beside_attention(config, null ? wide : config.integer("mamba_d_ssm", 1, 1024));
  s.norm = config.boolean("mamba_rms_norm", false);
  s.out_bias = config.boolean("projectors_bias", false);
  build_second(config, b, s);
}

// Experts, if there are any, and an MLP that all tokens meet.
void read_granite_hybrid(JsonReader& config, Blueprint& b) {
  build_second(config, b, read_beside_attention(config, expanded(config, "mamba_expand", b)));
  b.experts.inner = b.mlp.inner;
  b.mlp.inner = config.integer("shared_intermediate_size", 1, 1024);
  b.dense_blocks.assign(static_cast<std::size_t>(b.sizes.layers), true);
  b.mixer_blocks.assign(static_cast<std::size_t>(b.sizes.layers), true);
  const char* const key = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
  read_mixer_blocks(config, b, key, "mamba linear_attention", "attention full_attention");
  if (config.has("num_local_experts") && config.json()["num_local_experts"] == 0) {
    b.registered = "input_layernorm post_attention_layernorm shared_mlp self_attn";
    b.runs = "input_layernorm self_attn post_attention_layernorm shared_mlp";
    b.experts.count = 0;
    config.integer("num_experts_per_tok", 0, 0);
    return;
  }
  read_expert_counts(config, b, "num_local_experts|num_experts", "num_experts_per_tok");
}

// Blocks of which each so many have attention, and each so many experts.
void read_jamba(JsonReader& config, Blueprint& b) {
  read_first(config, b, jamba_keys);
  read_expert_counts(config, b, "num_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = b.mlp.inner;
  const auto pattern = [&](const char* period, std::int64_t every, const char* offset,
                           std::int64_t first) {
    every = config.integer(period, 1, every);
    first = config.integer(offset, 0, first);
    if (first >= every) config.fail(offset, fmt::format("{} must be below {}", first, period));
    return [=](std::int64_t k) { return k % every == first; };
  };
  const auto attends = pattern("attn_layer_period", 8, "attn_layer_offset", 4);
  const auto chooses = pattern("expert_layer_period", 2, "expert_layer_offset", 1);
  for (std::int64_t k = 0; k < b.sizes.layers; ++k) {
    b.mixer_blocks.push_back(!attends(k));
    b.dense_blocks.push_back(!chooses(k) || b.experts.count == 1);
  }
}

// Blocks of one part each, by words or by letters.
void read_parts(JsonReader& config, Blueprint& b) {
  const char* key = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
  nlohmann::json list = {"linear_attention", "moe", "full_attention", "mlp"};
  if (config.has(key)) list = config.json()[key];
  if (!config.has(key) && config.has("hybrid_override_pattern")) {
    key = "hybrid_override_pattern";
    list = nlohmann::json::array();
    for (const char letter : config.text(key, "")) list.push_back(std::string(1, letter));
  }
  constexpr std::size_t most = 100'000;
  if (!list.is_array() || list.empty() || list.size() > most) {
    return config.fail(key, "must name a part for each block");
  }
  constexpr std::pair<const char*, SinglePart> known[] = {
      {"linear_attention mamba M", SinglePart::mixer},
      {"full_attention attention *", SinglePart::attention},
      {"mlp -", SinglePart::mlp},
      {"moe E", SinglePart::experts}};
  for (std::size_t k = 0; k < list.size(); ++k) {
    const std::string word = list[k].is_string() ? list[k].get<std::string>() : "";
    const auto* const found = std::find_if(std::begin(known), std::end(known),
                                           [&](const auto& one) { return lists(one.first, word); });
    if (found == std::end(known)) {
      return config.fail(fmt::format("{}[{}]", key, k),
                         "must be linear_attention (M), full_attention (*), mlp (-) or moe (E)");
    }
    b.single_parts.push_back(found->second);
  }
  b.sizes.layers = static_cast<std::int64_t>(list.size());
  const std::int64_t layers = config.integer("num_hidden_layers", 1, b.sizes.layers);
  if (layers != b.sizes.layers) {
    config.fail("num_hidden_layers",
                fmt::format("is {}, but {} names {} blocks", layers, key, b.sizes.layers));
  }
}

void read_nemotron_h(JsonReader& config, Blueprint& b) {
  if (b.tied) config.fail("tie_word_embeddings", "is true, but this class never ties its head");
  read_parts(config, b);
  if (!config.status().ok()) return;
  SecondSizes s{};
  s.heads = std::min(config.integer("mamba_num_heads", 1, 128), widest_state);
  s.head_dim = std::min(config.integer("mamba_head_dim", 1, 64), widest_state);
  s.inner = s.heads * s.head_dim;
  s.groups = integer_of(config, "n_groups|mamba_n_groups", 1, 8);
  s.state = config.integer("ssm_state_size", 1, 128);
  s.width = integer_of(config, "conv_kernel|mamba_d_conv", 1, 4);
  s.chunk = integer_of(config, "chunk_size|mamba_chunk_size", 1, 128);
  s.bias = s.out_bias = config.boolean("use_bias", false);
  const char* const bias = config.has("mamba_conv_bias") ? "mamba_conv_bias" : "use_conv_bias";
  s.convolution_bias = config.boolean(bias, true);
  build_second(config, b, s);
  read_expert_counts(config, b, "n_routed_experts|num_local_experts", "num_experts_per_tok");
  b.experts.inner = config.integer("moe_intermediate_size", 1, b.experts.inner);
  b.experts.shared = config.integer("moe_shared_expert_intermediate_size", 1, 7688);
  if (config.has("moe_latent_size")) b.experts.latent = config.integer("moe_latent_size", 1, 1024);
  b.experts.fused = true;
  if (!config.boolean("mlp_bias", false)) return;
  b.mlp.biases = "u d";
  b.experts.shared_bias = true;
}

constexpr SizeKeys alone_keys{.inner = "",
                              .heads = "",
                              .key_value_heads = "",
                              .head_dim = "",
                              .positions = "",
                              .epsilon = "layer_norm_epsilon"};

std::vector<Family> of_mamba() {
  Blueprint mamba{.prefix = "Mamba",
                  .keys = alone_keys,
                  .sizes = {.vocabulary = 50280, .hidden = 768, .heads = 1, .positions = 1048576},
                  .dot = "backbone",
                  .embedding = "embeddings",
                  .final_norm = "norm_f",
                  .block_class = "Block",
                  .registered = "norm mixer",
                  .runs = "norm mixer",
                  .attention = {.rotary = false},
                  .mixer = {.name = "mixer"},
                  .epsilon = 1e-5,
                  .tied = true};
  Blueprint falcon = mamba;
  falcon.prefix = "FalconMamba";
  Blueprint second = mamba;
  second.prefix = "Mamba2";
  second.sizes = {
      .vocabulary = 32768, .hidden = 4096, .layers = 64, .heads = 1, .positions = 1048576};
  second.tied = false;
  return {{.model_type = "mamba", .blueprint = mamba, .read = read_mamba},
          {.model_type = "falcon_mamba", .blueprint = falcon, .read = read_mamba},
          {.model_type = "mamba2", .blueprint = second, .read = read_mamba2}};
}

std::vector<Family> with_one_part_each() {
  Blueprint nemotron{.prefix = "NemotronH",
                     .keys = {.layers = "", .epsilon = "layer_norm_epsilon"},
                     .sizes = {.vocabulary = 131072,
                               .inner = 21504,
                               .key_value_heads = 8,
                               .head_dim = 128,
                               .positions = 4096},
                     .embedding = "embeddings",
                     .final_norm = "norm_f",
                     .block_class = "Block",
                     .registered = "norm mixer",
                     .runs = "norm mixer",
                     .attention = {.name = "mixer", .rotary = false},
                     .mlp = {.weights = "up_proj:u down_proj:d"},
                     .experts = {.class_name = "MoE",
                                 .order = "experts router shared latent",
                                 .weights = "up_proj:u down_proj:d",
                                 .shared_name = "shared_experts",
                                 .count = 8,
                                 .per_token = 2,
                                 .inner = 7688},
                     .mixer = {.name = "mixer", .class_name = "Mamba2Mixer"},
                     .epsilon = 1e-5};
  return {{.model_type = "nemotron_h", .blueprint = nemotron, .read = read_nemotron_h}};
}

std::vector<Family> beside_attention() {
  const Sizes large{.inner = 14336, .key_value_heads = 8, .positions = 262144};
  Blueprint jamba{
      .prefix = "Jamba",
      .sizes = large,
      .final_norm = "final_layernorm",
      .block_class = "AttentionDecoderLayer",
      .registered = "self_attn feed_forward input_layernorm pre_ff_layernorm",
      .runs = "input_layernorm self_attn pre_ff_layernorm feed_forward",
      .attention = {.rotary = false},
      .mlp = {.name = "feed_forward"},
      .experts = {.name = "feed_forward", .router = "router", .count = 16, .per_token = 2},
      .mixer = {.class_name = "MambaMixer"},
      .mixer_block_class = "MambaDecoderLayer"};
  jamba.sizes.vocabulary = 65536;
  Blueprint bamba{.prefix = "Bamba",
                  .sizes = large,
                  .final_norm = "final_layernorm",
                  .registered = "feed_forward input_layernorm pre_ff_layernorm self_attn",
                  .runs = jamba.runs,
                  .mlp = {.name = "feed_forward"},
                  .epsilon = 1e-5};
  bamba.sizes.vocabulary = 128000;
  Blueprint falcon = bamba;
  falcon.prefix = "FalconH1";
  falcon.sizes.positions = 8192;
  falcon.registered = "feed_forward mamba self_attn input_layernorm pre_ff_layernorm";
  falcon.runs = "input_layernorm mamba self_attn pre_ff_layernorm feed_forward";
  falcon.scaled_input = true;
  Blueprint granite{.prefix = "GraniteMoeHybrid",
                    .registered =
                        "input_layernorm post_attention_layernorm block_sparse_moe "
                        "shared_mlp self_attn",
                    .runs =
                        "input_layernorm self_attn post_attention_layernorm block_sparse_moe "
                        "shared_mlp",
                    .mlp = {.name = "shared_mlp", .weights = "input_linear:gu output_linear:d"},
                    .experts = {.name = "block_sparse_moe",
                                .class_name = "MoE",
                                .router = "router",
                                .count = 8,
                                .per_token = 2,
                                .fused = true},
                    .mixer = {.class_name = "MambaLayer"},
                    .scaled_input = true};
  const char* const all = "q k v o";
  return {{.model_type = "jamba", .blueprint = jamba, .read = read_jamba},
          {.model_type = "bamba",
           .blueprint = bamba,
           .attention_bias = all,
           .mlp_bias = true,
           .read = read_bamba},
          {.model_type = "falcon_h1",
           .blueprint = falcon,
           .attention_bias = all,
           .mlp_bias = true,
           .read = read_falcon_h1},
          {.model_type = "granitemoehybrid",
           .blueprint = granite,
           .attention_bias = all,
           .read = read_granite_hybrid}};
}

}  // namespace

const std::vector<Family>& state_space_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> rows = of_mamba();
    for (auto* more : {with_one_part_each, beside_attention}) {
      for (Family& row : more()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

}  // namespace tessera
