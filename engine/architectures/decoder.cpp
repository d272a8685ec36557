// SPDX-License-Identifier: Apache-2.0
// From a family's row and a config.json to a blueprint.
#include <fmt/format.h>

#include <algorithm>

#include "engine/architectures/build_decoder.h"
#include "engine/architectures/config_keys.h"
#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"
#include "engine/architectures/hugging_face.h"
#include "engine/architectures/part_writer.h"

namespace tessera {
namespace {

constexpr std::int64_t layers_max = 100'000;

// Families that rotate a part of each head, or less than half of it, whose width may be odd.
constexpr const char* partly_rotated =
    "codegen glm glm4 glm4_moe gpt_neox gptj nemotron persimmon phi stablelm";
// Those whose configuration classes want heads to divide the model's width, whatever head_dim says.
constexpr const char* even_widths =
    "arcee deepseek_v2 eurobert exaone gemma2 gemma3_text internlm3 jais2 llama minicpm3 "
    "vaultgemma";

// Those without a head_dim of their own whose heads may be narrower than the model together:
// hidden / heads is rounded down.
constexpr const char* uneven_widths =
    "apertus bamba cohere cohere2 dots1 ernie4_5_moe exaone4 exaone_moe falcon_h1 flex_olmo "
    "glm4_moe granite granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared "
    "jamba lfm2 lfm2_moe minimax mistral mixtral nanochat nemotron olmo olmo2 olmo3 olmo_hybrid "
    "phi phi3 phimoe qwen2 qwen2_moe qwen3_moe smollm3 starcoder2";

// Those whose routers compute in float32.
constexpr const char* wide_routers =
    "axk1 deepseek_v2 deepseek_v3 deepseek_v32 dots1 ernie4_5_moe exaone_moe flint glm4_moe "
    "glm4_moe_lite glm4v_moe_text glm_moe_dsa hy_v3 kolibri1 nemotron_h sarvam_mla sarvam_moe "
    "solar_open";

// Those whose attention transformers computes with fused kernels only if it is told to.
constexpr const char* fused_if_asked =
    "flint gemma2 gpt_neo gpt_oss granite_swa granitemoe_swa vaultgemma";

bool is_among(const std::string& model_type, const char* families) {
  const auto all = words_of(families);
  return std::find(all.begin(), all.end(), model_type) != all.end();
}

std::string first_key(const std::string& names) { return names.substr(0, names.find('|')); }

// Real training's window: Mistral's blocks all have one; Qwen2's only if it is switched on. Null
// means none, while a missing key has Mistral's default.
std::int64_t training_window(JsonReader& config, const std::string& type) {
  if (type != "mistral" && type != "qwen2") return 0;
  const bool null = config.json().contains("sliding_window") && !config.has("sliding_window");
  if (type == "mistral" && !null) return config.integer("sliding_window", 1, 4096);
  const bool on = type == "qwen2" && config.boolean("use_sliding_window", false);
  return on && !null ? config.integer("sliding_window", 1, 4096) : 0;
}

class DecoderReader {
 public:
  DecoderReader(const Family& family, JsonReader& config)
      : family_(family), config_(config), b_(family.blueprint) {}

  Blueprint read() {
    read_sizes();
    read_heads();
    read_choices();
    if (!config_.status().ok()) return b_;
    if (family_.read != nullptr) family_.read(config_, b_);
    read_windows();
    check_heads();
    b_.experts.wide_router = is_among(family_.model_type, wide_routers);
    return b_;
  }

 private:
  std::int64_t size(const char* names, std::int64_t otherwise) {
    return *names == '\0' ? otherwise : integer_of(config_, names, 1, otherwise);
  }

  void read_sizes() {
    Sizes& s = b_.sizes;
    s.vocabulary = size("vocab_size", s.vocabulary);
    s.hidden = size(b_.keys.hidden, s.hidden);
    s.layers = size(b_.keys.layers, s.layers);
    if (s.layers > layers_max) {
      config_.fail(first_key(b_.keys.layers),
                   fmt::format("is {}, more than {}", s.layers, layers_max));
      s.layers = 1;
    }
    const std::int64_t four = std::min(s.hidden, width_max) * 4;
    s.inner = size(b_.keys.inner, s.inner == 0 ? four : s.inner);
    b_.mlp.inner = s.inner;
    s.positions = size(b_.keys.positions, s.positions);
    if (s.positions > width_max) {
      config_.fail(first_key(b_.keys.positions),
                   fmt::format("is {}, more than {}", s.positions, width_max));
    }
  }

  void read_heads() {
    Sizes& s = b_.sizes;
    s.heads = size(b_.keys.heads, s.heads);
    const std::int64_t shared = s.key_value_heads == 0 ? s.heads : s.key_value_heads;
    const bool null = config_.json().contains("num_key_value_heads");
    s.key_value_heads = size(b_.keys.key_value_heads, null ? s.heads : shared);
    const bool head_dim_key = *b_.keys.head_dim != '\0';
    // Null is what hidden / heads gives, whatever the family's number is.
    if (head_dim_key && config_.json().contains(b_.keys.head_dim) &&
        !config_.has(b_.keys.head_dim)) {
      s.head_dim = 0;
    }
    const bool given = s.head_dim > 0 || (head_dim_key && config_.has(b_.keys.head_dim));
    const std::string hidden = first_key(b_.keys.hidden);
    const std::string heads = first_key(b_.keys.heads);
    const bool rounds = s.hidden > s.heads && is_among(family_.model_type, uneven_widths);
    if (!given && s.hidden % s.heads != 0 && !rounds) {
      config_.fail(hidden, fmt::format("{} is not a multiple of {} {}", s.hidden, heads, s.heads));
    }
    const std::int64_t even = std::max<std::int64_t>(1, s.hidden / s.heads);
    s.head_dim = size(b_.keys.head_dim, s.head_dim > 0 ? s.head_dim : even);
    check_heads_width(config_, "head_dim", s.head_dim, heads, s.heads);
    if (b_.attention.latent.key_value > 0) s.key_value_heads = s.heads;  // whatever the file says
    if (s.heads % s.key_value_heads != 0) {
      config_.fail(heads, fmt::format("{} is not a multiple of num_key_value_heads {}", s.heads,
                                      s.key_value_heads));
    }
    b_.attention.heads = s.heads;
    b_.attention.key_value_heads = s.key_value_heads;
    b_.attention.head_dim = s.head_dim;
  }

  // What transformers' own configuration classes refuse.
  void check_heads() {
    const Sizes& s = b_.sizes;
    const std::string type = config_.text("model_type", family_.model_type);
    if (s.hidden % s.heads != 0 && is_among(type, even_widths)) {
      config_.fail(first_key(b_.keys.hidden),
                   fmt::format("{} is not a multiple of {} {}, which {} wants whatever head_dim is",
                               s.hidden, first_key(b_.keys.heads), s.heads, b_.prefix));
    }
    const LatentSizes& latent = b_.attention.latent;
    const bool said = config_.has("partial_rotary_factor") || is_among(type, partly_rotated);
    const std::int64_t rotated = latent.key_value > 0 ? latent.rotary : s.head_dim;
    if (!b_.attention.rotary || said || rotated % 2 == 0) return;
    config_.fail(
        latent.key_value > 0 ? "qk_rope_head_dim" : "head_dim",
        fmt::format("is {}: heads are rotated by pairs of elements, so it must be even", rotated));
  }

  void read_choices() {
    if (!family_.attention_bias.empty() && config_.boolean("attention_bias", family_.biased)) {
      b_.attention.biases = family_.attention_bias;
    }
    if (family_.mlp_bias && config_.boolean("mlp_bias", false)) b_.mlp.biases = "g u d";
    b_.tied = config_.boolean("tie_word_embeddings", b_.tied);
    if (*b_.keys.epsilon != '\0') b_.epsilon = config_.not_negative(b_.keys.epsilon, b_.epsilon);
  }

  // Whether the block `k` attends to a window only.
  bool has_window(std::int64_t k, std::int64_t every) const {
    const bool late =
        family_.windows.style == WindowStyle::after || family_.windows.style == WindowStyle::beyond;
    if (late) return k >= every;
    if (family_.windows.style == WindowStyle::first) return k % every != 0;
    const bool alternate = family_.windows.style == WindowStyle::pattern ||
                           family_.windows.style == WindowStyle::chunks;
    return !alternate || (k + 1) % every != 0;
  }

  // A number, or its blocks as letters: "LLLG" is 4.
  std::int64_t pattern(const char* names, std::int64_t otherwise) {
    const char* key = "sliding_window_pattern";
    if (!config_.json().contains(key) || !config_.json()[key].is_string()) {
      return integer_of(config_, names, 1, otherwise);
    }
    const std::string letters = config_.text(key, "");
    if (!letters.empty() && letters.find('G') == letters.size() - 1 &&
        letters.find_first_not_of("LG") == std::string::npos) {
      return static_cast<std::int64_t>(letters.size());
    }
    config_.fail(key, "must be a number, or as many L as have a window and one G");
    return otherwise;
  }

  void read_windows() {
    const WindowDefaults& w = family_.windows;
    if (w.style == WindowStyle::none) return;
    const char* key = w.style == WindowStyle::chunks ? "attention_chunk_size" : "sliding_window";
    const bool optional = w.style == WindowStyle::after || w.style == WindowStyle::chosen;
    const bool on = !optional || config_.boolean("use_sliding_window", false);
    const bool null = config_.json().contains(key) && !config_.has(key);
    const std::int64_t width = config_.integer(key, optional ? 0 : 1, w.width);
    std::int64_t every = w.every;
    if (w.style == WindowStyle::after || w.style == WindowStyle::beyond) {
      every = config_.integer("max_window_layers", 0, w.every > 0 ? w.every : 28);
    }
    if (*w.every_key != '\0') every = pattern(w.every_key, every);
    if (w.style == WindowStyle::chunks) {
      every = config_.integer("no_rope_layer_interval", 1, every);
    }
    if (!on || null || width == 0 || !config_.status().ok()) return types(0);
    if (w.style == WindowStyle::listed) return types(width);
    b_.chunked = w.style == WindowStyle::chunks;
    for (std::int64_t k = 0; k < b_.sizes.layers; ++k) {
      b_.windows.push_back(has_window(k, every) ? width : 0);
    }
    types(width);
  }

  void types(std::int64_t width) {
    if (!config_.has("layer_types")) return;
    if (family_.windows.style == WindowStyle::listed) {
      b_.windows.assign(static_cast<std::size_t>(b_.sizes.layers), 0);
    }
    read_layer_types(config_, width, b_);
  }

  const Family& family_;
  JsonReader& config_;
  Blueprint b_;
};

// What real training needs to know beyond shapes.
void describe(const Family& family, JsonReader& config, const Blueprint& b, Model& model) {
  Mathematics& m = model.mathematics;
  if (family.model_type == "mixtral") {
    m = read_mathematics(config, "mixtral", b.sizes.layers);
    model.rotary = read_rotary(config, "mixtral", 1e6, b.sizes.positions, m.refused);
    return;
  }
  if (!family.trains) {
    m.refused.push_back(
        fmt::format("real training knows {}, and not {}", trained_families, family.model_type));
    return;
  }
  m = read_mathematics(config, family.model_type, b.sizes.layers);
  if (family.model_type == "gpt2") return;
  model.rotary =
      read_rotary(config, family.model_type, family.rotary_base, b.sizes.positions, m.refused);
  m.on_cpus_only = family.compute != nullptr;
  if (family.compute != nullptr) return family.compute(config, b, model);
  model.sliding_window = training_window(config, family.model_type);
}

// Latent attention makes keys and values for every head; transformers builds such a model all the
// same, and fails when it computes.
void warn_of_key_value_heads(JsonReader& config, const Blueprint& b, Model& model) {
  const char* key = b.keys.key_value_heads;
  if (b.attention.latent.key_value == 0 || *key == '\0' || !config.has(key)) return;
  const std::int64_t given = config.integer(key, 1, b.sizes.heads);
  if (given == b.sizes.heads) return;
  model.warnings.push_back(
      fmt::format("{} {} is ignored: latent attention has keys and values for each of the {} {}",
                  key, given, first_key(b.keys.heads), b.sizes.heads));
}

// Another head than that of a language model.
void choose_head(const std::string& suffix, JsonReader& config, Blueprint& b) {
  if (suffix == "ForCausalLM") return;
  b.tied = false;
  b.head = suffix == "ForQuestionAnswering" ? "qa_outputs" : "score";
  b.head_bias = suffix != "ForSequenceClassification";
  if (suffix != "Model") {
    b.labels = suffix == "ForQuestionAnswering" ? 2 : labels_of(config);
    return;
  }
  b.headless = true;
  const auto dot = b.dot.find('.');
  b.dot = dot == std::string::npos ? "" : b.dot.substr(dot + 1);
}

}  // namespace

bool drops(JsonReader& config, const char* key, double otherwise) {
  if (!config.has(key)) return otherwise > 0;
  const nlohmann::json& value = config.json()[key];
  const bool good = value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1;
  if (!good) config.fail(key, "must be a number from 0 to 1");
  return good && value.get<double>() > 0;
}

void check_heads_width(JsonReader& config, const char* key, std::int64_t head_dim,
                       const std::string& heads_key, std::int64_t heads) {
  if (head_dim <= width_max / heads) return;
  config.fail(key,
              fmt::format("{} times {} {} is more than {}", head_dim, heads_key, heads, width_max));
}

void read_full_blocks(JsonReader& config, std::vector<bool>& full, bool chunks) {
  if (!config.has("layer_types")) return;
  const nlohmann::json& list = config.json()["layer_types"];
  if (!list.is_array() || list.size() != full.size()) {
    return config.fail("layer_types", fmt::format("must be a list of {} words", full.size()));
  }
  for (std::size_t k = 0; k < full.size(); ++k) {
    full[k] = list[k] == "full_attention";
    const bool part = list[k] == "sliding_attention" || (chunks && list[k] == "chunked_attention");
    if (full[k] || part) continue;
    return config.fail(fmt::format("layer_types[{}]", k),
                       chunks ? "must be full_attention, sliding_attention or chunked_attention"
                              : "must be full_attention or sliding_attention");
  }
}

void read_layer_types(JsonReader& config, std::int64_t width, Blueprint& b) {
  if (!config.has("layer_types") || !config.status().ok()) return;  // of layers, too
  std::vector<bool> full(static_cast<std::size_t>(b.sizes.layers));
  read_full_blocks(config, full, /*chunks=*/true);
  for (std::size_t k = 0; k < b.windows.size(); ++k) b.windows[k] = full[k] ? 0 : width;
}

void require_full_heads(JsonReader& config, const Blueprint& b) {
  const AttentionPart& a = b.attention;
  if (b.sizes.hidden == a.heads * a.head_dim) return;
  config.fail("head_dim", fmt::format("{} times {} {} must be {} {}: transformers builds no other "
                                      "{} that computes",
                                      a.head_dim, first_key(b.keys.heads), a.heads,
                                      first_key(b.keys.hidden), b.sizes.hidden, b.prefix));
}

Result<Model> decoder_model(const Family& family, const std::string& suffix, JsonReader& config,
                            const std::string& name) {
  Blueprint b = DecoderReader(family, config).read();
  TESSERA_TRY(config.status());
  const bool own_base = !b.base_class.empty() && b.dot == "model";
  choose_head(suffix, config, b);
  const bool causal = suffix == "ForCausalLM";
  b.root_class = causal && !family.causal.empty() ? family.causal : b.prefix + suffix;
  if (suffix == "Model" && own_base) b.root_class = b.base_class;
  if (b.head == "embed_out" && fused_experts(config)) b.head = "lm_head";
  const DType dtype = config_dtype(config);
  Model extra;
  describe(family, config, b, extra);
  TESSERA_TRY(config.status());
  TESSERA_ASSIGN(Model model, build_decoder(b, name, dtype, config.source()));
  warn_of_key_value_heads(config, b, model);
  if (const auto idle = std::count(b.idle.which.begin(), b.idle.which.end(), true); idle > 0) {
    add_note(model, fmt::format("{} of {} blocks attend to images alone: texts pass them by, and "
                                "they cost memory and no time",
                                idle, b.sizes.layers));
  }
  if (is_among(family.model_type, fused_if_asked)) {
    add_note(model, fused_if_asked_note(family.model_type, b.attention.heads));
  }
  model.mathematics = std::move(extra.mathematics);
  model.rotary = extra.rotary;
  model.sliding_window = extra.sliding_window;
  if (!causal && model.mathematics.refused.empty()) {
    model.mathematics.refused.push_back(
        fmt::format("real training knows language models, and not {}", b.root_class));
  }
  return model;
}

}  // namespace tessera
