// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/text_wrapper.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/architectures/config_check.h"
#include "engine/architectures/config_keys.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

// Whose `tie_word_embeddings` says whether the head is the embedding.
enum class TieOf { outer, inner, either, nobody };

struct TextWrapper {
  std::string_view model_type, prefix;  // of its class, before "ForConditionalGeneration"
  std::string_view text;                // model type of the text part that says none
  TieOf tie;
  bool tied = false;  // where the outer file says nothing
  // What the class says of its text part, which `text_config` adds to; JSON.
  std::string_view defaults = {};
};

constexpr std::string_view voxtral_text =
    R"({"vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 30, "num_key_value_heads": 8, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05, "rope_theta": 100000000.0, "head_dim": 128})";
constexpr std::string_view glm_text =
    R"({"vocab_size": 59264, "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 4,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-05})";

constexpr TextWrapper wrappers[] = {
    {"audioflamingo3", "AudioFlamingo3", "qwen2", TieOf::nobody},
    {"aya_vision", "AyaVision", "cohere2", TieOf::outer, true},
    {"cohere2_vision", "Cohere2Vision", "cohere2", TieOf::outer, true},
    {"deepseek_vl", "DeepseekVL", "llama", TieOf::outer, true},
    {"deepseek_vl_hybrid", "DeepseekVLHybrid", "llama", TieOf::outer, true},
    {"exaone4_5", "Exaone4_5_", "exaone4", TieOf::outer},
    {"gemma3", "Gemma3", "gemma3_text", TieOf::outer, true},
    {"gemma4", "Gemma4", "gemma4_text", TieOf::outer, true},
    {"glm46v", "Glm46V", "glm4v_text", TieOf::outer},
    {"glm4v", "Glm4v", "glm4v_text", TieOf::either},
    {"glm4v_moe", "Glm4vMoe", "glm4v_moe_text", TieOf::either},
    {"glmasr", "GlmAsr", "llama", TieOf::outer, true, glm_text},
    {"got_ocr2", "GotOcr2", "qwen2", TieOf::outer, true},
    {"granite_speech", "GraniteSpeech", "granite", TieOf::outer, true},
    {"hyperclovax_vision_v2", "HyperCLOVAXVisionV2", "hyperclovax", TieOf::outer, true},
    {"idefics2", "Idefics2", "mistral", TieOf::outer},
    {"idefics3", "Idefics3", "llama", TieOf::outer},
    {"internvl", "InternVL", "qwen2", TieOf::outer, true},
    {"janus", "Janus", "llama", TieOf::outer, true},
    {"kimi_k25", "Kimi_K25", "deepseek_v3", TieOf::outer, true},
    {"lfm2_vl", "Lfm2Vl", "lfm2", TieOf::outer, true},
    {"lighton_ocr", "LightOnOcr", "qwen3", TieOf::outer, true},
    {"llama4", "Llama4", "llama4_text", TieOf::inner},
    {"llava", "Llava", "llama", TieOf::either},
    {"llava_next", "LlavaNext", "llama", TieOf::outer},
    {"llava_next_video", "LlavaNextVideo", "llama", TieOf::either},
    {"llava_onevision", "LlavaOnevision", "qwen2", TieOf::either},
    {"minicpmv4_6", "MiniCPMV4_6", "qwen3_5_text", TieOf::outer},
    {"mistral3", "Mistral3", "mistral", TieOf::outer, true},
    {"mllama", "Mllama", "mllama_text_model", TieOf::nobody},
    {"musicflamingo", "MusicFlamingo", "qwen2", TieOf::nobody},
    {"ovis2", "Ovis2", "qwen2", TieOf::outer, true},
    {"paligemma", "PaliGemma", "gemma", TieOf::outer, true},
    {"qianfan_ocr", "QianfanOCR", "qwen3", TieOf::outer},
    {"qwen2_5_vl", "Qwen2_5_VL", "qwen2_5_vl_text", TieOf::either},
    {"qwen2_audio", "Qwen2Audio", "qwen2", TieOf::nobody},
    {"qwen2_vl", "Qwen2VL", "qwen2_vl_text", TieOf::either},
    {"qwen3_5", "Qwen3_5", "qwen3_5_text", TieOf::outer},
    {"qwen3_5_moe", "Qwen3_5Moe", "qwen3_5_moe_text", TieOf::outer},
    {"qwen3_asr", "Qwen3ASR", "qwen3", TieOf::outer, true},
    {"qwen3_vl", "Qwen3VL", "qwen3_vl_text", TieOf::outer},
    {"qwen3_vl_moe", "Qwen3VLMoe", "qwen3_vl_moe_text", TieOf::outer},
    {"smolvlm", "SmolVLM", "llama", TieOf::outer},
    {"vibevoice_asr", "VibeVoiceAsr", "qwen2", TieOf::nobody},
    {"video_llama_3", "VideoLlama3", "qwen2", TieOf::either},
    {"video_llava", "VideoLlava", "llama", TieOf::outer},
    {"vipllava", "VipLlava", "llama", TieOf::outer},
    {"voxtral", "Voxtral", "llama", TieOf::nobody, false, voxtral_text},
};

const TextWrapper* wrapper_of(std::string_view name) {
  for (const TextWrapper& wrapper : wrappers) {
    const std::string its_class = std::string(wrapper.prefix) + "ForConditionalGeneration";
    if (name == wrapper.model_type || name == its_class) return &wrapper;
  }
  return nullptr;
}

bool says_true(const nlohmann::json& json) {
  const auto found = json.find("tie_word_embeddings");
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

bool is_tied(const TextWrapper& wrapper, const nlohmann::json& outer, const nlohmann::json& inner) {
  switch (wrapper.tie) {
    case TieOf::outer:
      return outer.contains("tie_word_embeddings") ? says_true(outer) : wrapper.tied;
    case TieOf::inner: return says_true(inner);
    case TieOf::either: return says_true(outer) || says_true(inner);
    case TieOf::nobody: return false;
  }
  return false;
}

// Qwen2-VL was published with all sizes of its language model at the top.
bool sizes_at_top(const TextWrapper& wrapper, const nlohmann::json& json) {
  const bool was = wrapper.model_type == "qwen2_vl" || wrapper.model_type == "qwen2_5_vl";
  return was && json.contains("hidden_size");
}

bool of_other_parts(const std::string& key) {
  for (const char* part : {"vision", "image", "video", "audio", "mm_"}) {
    if (key.find(part) != std::string::npos) return true;
  }
  return false;
}

// Names what is left out, and takes it out of `inner` where all is in one object.
std::string without_other_parts(const nlohmann::json& json, bool nested, nlohmann::json& inner) {
  std::string left_out;
  for (const auto& [key, value] : json.items()) {
    const bool known = key == "text_config" || key == "tie_word_embeddings" ||
                       key.ends_with("_token_id") || without_influence_on_costs(key);
    if (known || (!nested && !of_other_parts(key))) continue;
    if (!nested) inner.erase(key);
    add_key(left_out, key);
  }
  return left_out;
}

// The head of Ovis2 is as wide as the outer file says.
bool other_head(const TextWrapper& wrapper, const nlohmann::json& outer,
                const nlohmann::json& inner) {
  if (wrapper.model_type != "ovis2" || inner["tie_word_embeddings"] != false) return false;
  return outer.value("hidden_size", nlohmann::json(1536)) !=
             inner.value("hidden_size", nlohmann::json(4096)) ||
         outer.value("vocab_size", nlohmann::json(151643)) !=
             inner.value("vocab_size", nlohmann::json(151936));
}

// As what the outer file says beside: the head, the dtype, the layout of experts.
void inherit(const TextWrapper& wrapper, const nlohmann::json& json, nlohmann::json& inner) {
  if (!inner.contains("tie_word_embeddings") || inner["tie_word_embeddings"].is_boolean()) {
    inner["tie_word_embeddings"] = is_tied(wrapper, json, inner);
  }
  for (const char* key : {"dtype", "torch_dtype", "transformers_version"}) {
    const bool own = inner.contains("dtype") || inner.contains("torch_dtype");
    const bool is_dtype = std::string_view(key) != "transformers_version";
    if (json.contains(key) && !inner.contains(key) && !(is_dtype && own)) inner[key] = json[key];
  }
}

}  // namespace

Result<std::optional<WrappedText>> wrapped_text(const nlohmann::json& json,
                                                const std::string& source,
                                                const std::string& name) {
  const TextWrapper* const wrapper = wrapper_of(name);
  if (wrapper == nullptr || !json.is_object()) return std::optional<WrappedText>();
  const auto found = json.find("text_config");
  const bool nested = found != json.end() && !found->is_null();
  const auto refuse = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", source, why));
  };
  const nlohmann::json said = json.value("model_type", nlohmann::json(wrapper->model_type));
  if (said != wrapper->model_type) {
    return refuse("model_type " + of_two_models(shown_value(said), name, wrapper->model_type));
  }
  if (!nested && !sizes_at_top(*wrapper, json)) {
    return refuse(
        fmt::format("text_config is missing: {} has the sizes of its language model "
                    "there",
                    bare_or_quoted(name)));
  }
  if (nested && !found->is_object()) return refuse("text_config must be an object {...}");
  const nlohmann::json tie = json.value("tie_word_embeddings", nlohmann::json());
  if (!tie.is_null() && !tie.is_boolean()) {
    return refuse(
        fmt::format("tie_word_embeddings must be true or false, found {}", shown_value(tie)));
  }
  WrappedText out{.config = nested ? *found : json, .warning = {}};
  nlohmann::json& inner = out.config;
  if (!wrapper->defaults.empty()) {
    const nlohmann::json defaults = nlohmann::json::parse(wrapper->defaults);
    inner.insert(defaults.begin(), defaults.end());  // keys that are there stay
  }
  if (!nested || inner.value("model_type", nlohmann::json()).is_null()) {
    inner["model_type"] = wrapper->text;
  }
  inner.erase("architectures");
  const nlohmann::json& type = inner["model_type"];
  if (!type.is_string() || wrapper_of(type.get<std::string>()) != nullptr) {
    return refuse(fmt::format("text_config.model_type must name a language model, found {}",
                              shown_value(type)));
  }
  inherit(*wrapper, json, inner);
  if (other_head(*wrapper, json, inner)) {
    return refuse(
        "a head that is not the embedding has hidden_size and vocab_size of the outer file "
        "(1536 and 151643 unless given), which differ from those of text_config: it could not "
        "read its language model");
  }
  const std::string left_out = without_other_parts(json, nested, inner);
  out.warning =
      fmt::format("only the language model of {} is built, {}; without its other parts{}{}",
                  bare_or_quoted(name), shown_value(type), left_out.empty() ? "" : ": ", left_out);
  return std::optional<WrappedText>(std::move(out));
}

}  // namespace tessera
