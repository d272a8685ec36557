// SPDX-License-Identifier: Apache-2.0
// Defaults are those of the transformers config classes; checkpoints leave out what equals them.
#include "engine/model/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/config_keys.h"

namespace tessera {
namespace {

struct Architecture {
  const char* name;
  const char* model_type;
  // Defaults; kv_heads 0: as many as heads.
  std::int64_t vocabulary, intermediate, kv_heads, positions;
};

constexpr Architecture llamas[] = {
    {"LlamaForCausalLM", "llama", 32000, 11008, 0, 2048},
    {"MistralForCausalLM", "mistral", 32000, 14336, 8, 131072},
    {"Qwen2ForCausalLM", "qwen2", 151936, 22016, 32, 32768},
    {"MixtralForCausalLM", "mixtral", 32000, 14336, 8, 131072},
};

constexpr std::int64_t layers_max = 100'000;
constexpr std::int64_t width_max = std::int64_t{1} << 40;  // of all heads together

// Mistral's layers all have one; Qwen2's only if it is switched on. Null means none, while a
// missing key has Mistral's default. Llama ignores the key.
std::int64_t read_sliding_window(JsonReader& config, const std::string& type) {
  const bool null = config.json().contains("sliding_window") && !config.has("sliding_window");
  if (type == "mistral" && !null) return config.integer("sliding_window", 1, 4096);
  if (type == "mixtral" && !null) return config.integer("sliding_window", 0, 0);
  const bool on = type == "qwen2" && config.boolean("use_sliding_window", false);
  return on && !null ? config.integer("sliding_window", 1, 4096) : 0;
}

LlamaDimensions read_llama(JsonReader& config, const Architecture& architecture) {
  const std::string type = architecture.model_type;
  LlamaDimensions d;
  d.architecture = architecture.name;
  d.vocabulary = config.integer("vocab_size", 1, architecture.vocabulary);
  d.hidden = config.integer("hidden_size", 1, 4096);
  d.intermediate = config.integer("intermediate_size", 1, architecture.intermediate);
  d.layers = config.integer("num_hidden_layers", 1, 32);
  d.heads = config.integer("num_attention_heads", 1, 32);
  d.kv_heads = config.integer("num_key_value_heads", 1,
                              architecture.kv_heads == 0 ? d.heads : architecture.kv_heads);
  if (d.layers > layers_max) {
    config.fail("num_hidden_layers", fmt::format("is {}, more than {}", d.layers, layers_max));
  }
  if (!config.has("head_dim") && d.hidden % d.heads != 0) {
    config.fail("hidden_size",
                fmt::format("{} is not a multiple of num_attention_heads {}", d.hidden, d.heads));
  }
  d.head_dim = config.integer("head_dim", 1, std::max<std::int64_t>(1, d.hidden / d.heads));
  if (d.head_dim > width_max / d.heads) {
    config.fail("head_dim", fmt::format("{} times num_attention_heads {} is more than {}",
                                        d.head_dim, d.heads, width_max));
  }
  if (d.heads % d.kv_heads != 0) {
    config.fail("num_attention_heads",
                fmt::format("{} is not a multiple of num_key_value_heads {}", d.heads, d.kv_heads));
  }
  if (type == "mixtral") {
    d.experts = config.integer("num_local_experts", 1, 8);
    d.experts_per_token = config.integer("num_experts_per_tok", 1, 2);
    if (d.experts > 4096 || d.experts * d.layers > 10 * layers_max) {
      config.fail("num_local_experts", fmt::format("is {}, more than 4096 or more than {} in all",
                                                   d.experts, 10 * layers_max));
    }
    if (d.experts_per_token > d.experts) {
      config.fail("num_experts_per_tok", fmt::format("{} is more than num_local_experts {}",
                                                     d.experts_per_token, d.experts));
    }
  }
  if (type == "llama") {
    d.qkv_bias = d.output_bias = config.boolean("attention_bias", false);
    d.mlp_bias = config.boolean("mlp_bias", false);
  }
  if (type == "qwen2") d.qkv_bias = true;
  d.tied = config.boolean("tie_word_embeddings", false);
  d.dtype = config_dtype(config);
  d.sequence_length_max = config.integer("max_position_embeddings", 1, architecture.positions);
  d.norm_epsilon = config.positive("rms_norm_eps", type == "mixtral" ? 1e-5 : 1e-6);
  d.mathematics = read_mathematics(config, type, d.layers);
  d.rotary = read_rotary(config, type == "mixtral" ? 1e6 : 10000, d.sequence_length_max,
                         d.mathematics.refused);
  d.sliding_window = read_sliding_window(config, type);
  return d;
}

std::string known_architectures() {
  std::string text;
  for (const auto& architecture : llamas) text += fmt::format("{}, ", architecture.name);
  return text + "GPT2LMHeadModel";
}

// Bare when it is a plain word, as nearly always.
std::string word(const std::string& text) {
  const bool plain = text.size() <= 60 && std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '-';
                     });
  return plain ? text : in_quotes(text);
}

// The first of "architectures", or "model_type" if there is none.
std::string architecture_of(JsonReader& config) {
  if (!config.has("architectures")) return config.text("model_type", "");
  const auto& list = config.json()["architectures"];
  if (!list.is_array() || list.empty() || !list[0].is_string()) {
    config.fail("architectures", "must be a list with the name of the model class");
    return "";
  }
  return list[0].get<std::string>();
}

}  // namespace

DType config_dtype(JsonReader& config) {
  const DType dtype = config.dtype({"dtype", "torch_dtype"}, DType::float32);
  if (!is_floating(dtype)) {
    config.fail(config.has("dtype") ? "dtype" : "torch_dtype",
                fmt::format("must be a floating-point dtype, found {}", name_of(dtype)));
  }
  return dtype;
}

Result<Model> hugging_face_model(const nlohmann::json& json, const std::string& source,
                                 const std::string& name) {
  JsonReader config(json, source);
  const char* key = config.has("architectures") ? "architectures" : "model_type";
  const std::string architecture = architecture_of(config);
  TESSERA_TRY(config.status());
  if (architecture.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: architectures is missing: expected a Hugging Face config.json "
                              "or a module tree with \"tessera_model\": 1",
                              source));
  }
  if (architecture == "GPT2LMHeadModel" || architecture == "gpt2") return gpt2_model(config, name);
  for (const auto& llama : llamas) {
    if (architecture != llama.name && architecture != llama.model_type) continue;
    const LlamaDimensions dimensions = read_llama(config, llama);
    TESSERA_TRY(config.status());
    return llama_model(dimensions, name, source);
  }
  return Status(Code::invalid_argument,
                fmt::format("{}: {} names {}, known are {}; describe other models as a module tree",
                            source, key, word(architecture), known_architectures()));
}

}  // namespace tessera
