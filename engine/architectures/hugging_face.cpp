// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/architectures/config_check.h"
#include "engine/architectures/family.h"
#include "engine/architectures/part_writer.h"
#include "engine/architectures/text_wrapper.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

// Heads of decoders, beside that of a language model.
constexpr const char* decoder_heads[] = {"ForCausalLM", "ForSequenceClassification",
                                         "ForTokenClassification", "ForQuestionAnswering", "Model"};

// Heads that transformers 5.24 does not have for some families, by the prefix of their classes.
struct MissingHeads {
  std::string_view heads, prefixes;
};
constexpr MissingHeads missing_heads[] = {
    {"ForSequenceClassification ForTokenClassification ForQuestionAnswering",
     "Afmoe AriaText Bamba BitNet CLIPText CodeGen Cohere Cohere2 Cwm Dbrx DeepseekV32 Dots1 "
     "Ernie4_5 Ernie4_5_Moe EuroBert ExaoneMoe FalconH1 FalconMamba FlexOlmo Flint Glm4Moe "
     "Glm4MoeLite Glm4vMoeText Glm4vText "
     "GlmMoeDsa Granite GraniteMoe GraniteMoeHybrid GraniteMoeSWA GraniteMoeShared GraniteSWA "
     "HYV3 HyperCLOVAX Jais2 Kolibri1 Lfm2 Lfm2Moe Llama4Text Mamba Mamba2 Mellum MiniMaxM2 Mllama "
     "ModernBertDecoder NanoChat NemotronH NomicBert OlmoHybrid Olmoe Qwen2VLText Qwen2_5_VLText "
     "Qwen3VLMoeText "
     "Qwen3VLText Qwen3_5Moe SiglipText SolarOpen VaultGemma XGLM Youtu"},
    {"ForSequenceClassification ForQuestionAnswering", "Apertus"},
    {"ForTokenClassification ForQuestionAnswering",
     "DeepseekV2 Gemma3 HunYuanDenseV1 HunYuanMoEV1 Jamba MiniCPM3 Olmo Olmo2 Olmo3 OpenAIGPT "
     "Phimoe"},
    {"ForTokenClassification", "GPTJ OPT"},
    {"ForQuestionAnswering",
     "AXK1 BioGpt DeepseekV3 GPTBigCode Gemma Gemma2 Glm Glm4 GptOss Helium Persimmon Phi Phi3 "
     "Qwen3_5 StableLm Starcoder2"},
};

// What builds the model of a config.json.
struct Choice {
  const Family* decoder = nullptr;
  const EncoderFamily* encoder = nullptr;
  std::string head;

  bool found() const { return decoder != nullptr || encoder != nullptr; }
  std::string model_type() const {
    return decoder != nullptr ? decoder->model_type : encoder->model_type;
  }
};

template <class Visit>
void each_decoder(const Visit& visit) {
  for (const auto* families :
       {&dense_families(), &normed_families(), &gpt_families(), &plain_families(),
        &expert_families(), &latent_families(), &routed_families(), &state_space_families(),
        &linear_attention_families(), &windowed_families(), &shared_expert_families(),
        &gated_encoder_families(), &image_text_families()}) {
    for (const Family& family : *families) visit(family);
  }
}

template <class Visit>
void each_encoder(const Visit& visit) {
  for (const auto* families : {&encoder_families(), &bart_families()}) {
    for (const EncoderFamily& family : *families) visit(family);
  }
}

std::string causal_class(const Family& family) {
  return family.causal.empty() ? family.blueprint.prefix + "ForCausalLM" : family.causal;
}

bool has_word(const std::string& words, const std::string& word) {
  const auto all = words_of(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool exists(const std::string& prefix, const std::string& head) {
  return std::none_of(std::begin(missing_heads), std::end(missing_heads),
                      [&](const MissingHeads& missing) {
                        return has_word(std::string(missing.heads), head) &&
                               has_word(std::string(missing.prefixes), prefix);
                      });
}

// The family that has the class or the model type `name`; of several with one class that of `type`.
Choice choose(const std::string& name, const std::string& type) {
  Choice out;
  each_decoder([&](const Family& family) {
    if (out.found() && family.model_type != type) return;
    const bool causal = name == causal_class(family) || name == family.model_type ||
                        name == family.blueprint.prefix + "ForCausalLM" ||
                        has_word(family.other_names, name);
    if (causal) out = {&family, nullptr, "ForCausalLM"};
    const std::string& base = family.blueprint.base_class;
    if (!causal && !base.empty() && name == base) out = {&family, nullptr, "Model"};
    for (const char* head : decoder_heads) {
      const bool named = head != std::string_view("ForCausalLM");
      const std::string& prefix = family.blueprint.prefix;
      if (!named || causal || name != prefix + head || !exists(prefix, head)) continue;
      out = {&family, nullptr, head};
    }
  });
  each_encoder([&](const EncoderFamily& family) {
    const auto heads = words_of(family.heads);
    if (name == family.model_type) out = {nullptr, &family, heads[0]};
    for (const std::string& head : heads) {
      if (name == family.prefix + head) out = {nullptr, &family, head};
    }
  });
  return out;
}

std::vector<std::string> known_classes() {
  std::vector<std::string> out;
  each_decoder([&](const Family& family) { out.push_back(causal_class(family)); });
  each_encoder([&](const EncoderFamily& family) {
    out.push_back(family.prefix + words_of(family.heads)[0]);
  });
  return out;
}

std::vector<std::string> known_types() {
  std::vector<std::string> out;
  each_decoder([&](const Family& family) { out.push_back(family.model_type); });
  each_encoder([&](const EncoderFamily& family) { out.push_back(family.model_type); });
  return out;
}

// A model_type in capitals, or a class that nearly has the name of one.
std::string meant_by(const std::string& name, bool is_type) {
  std::string typed = name;
  for (char& c : typed) {
    if (is_type && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::vector<std::string> known = is_type ? known_types() : known_classes();
  return did_you_mean(typed, {known.begin(), known.end()});
}

// Models with layers that carry a state from token to token; a similar name would mislead.
bool is_recurrent(const std::string& name) {
  constexpr std::array<std::string_view, 5> beginnings = {"KimiLinear", "RecurrentGemma", "Rwkv",
                                                          "Zamba", "xLSTM"};
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

Status unknown(const std::string& source, const char* key, const std::string& name) {
  if (is_recurrent(name)) {
    return Status(Code::not_supported,
                  fmt::format("{}: {} names {}, which has recurrent layers (state spaces, linear "
                              "attention, convolutions): their costs are not known here, make a "
                              "module tree of it with tools/export_torch_model.py",
                              source, key, bare_or_quoted(name)));
  }
  const bool is_type = key == std::string_view("model_type");
  return Status(Code::invalid_argument,
                fmt::format("{}: {} names {}, which is no class of the {} families that "
                            "docs/model-format.md lists{}; others: a module tree, made by "
                            "tools/export_torch_model.py",
                            source, key, bare_or_quoted(name), known_types().size(),
                            meant_by(name, is_type)));
}

// Classes under the names that old files have.
constexpr std::pair<std::string_view, std::string_view> renamed[] = {
    {"T5WithLMHeadModel", "T5ForConditionalGeneration"},
};

// The first of "architectures", or "model_type" if there is none.
std::string architecture_of(JsonReader& config) {
  if (!config.has("architectures")) return config.text("model_type", "");
  const auto& list = config.json()["architectures"];
  if (!list.is_array() || list.empty() || !list[0].is_string()) {
    config.fail("architectures", "must be a list with the name of the model class");
    return "";
  }
  const auto name = list[0].get<std::string>();
  for (const auto& [old, now] : renamed) {
    if (name == old) return std::string(now);
  }
  return name;
}

// A model_type alone does not say which head an encoder has.
std::string guessed_head(const Choice& choice) {
  const auto heads = words_of(choice.encoder->heads);
  return fmt::format(
      "architectures is missing: {0}{1} is built, name it or another class there "
      "({0}{2})",
      choice.encoder->prefix, choice.head, heads.back());
}

// Files beside a config.json that are taken for one: a key that they have, and what they are.
constexpr std::pair<std::string_view, std::string_view> other_files[] = {
    {"peft_type", "an adapter's configuration: its model's config.json is wanted, and --lora"},
    {"weight_map", "an index of weights: config.json is beside it"},
    {"_from_model_config", "a generation_config.json: config.json is beside it"},
    {"tokenizer_class", "a tokenizer's configuration: config.json is beside it"},
    {"_class_name", "of diffusers, whose models are not built"},
    {"zero_optimization", "a configuration of DeepSpeed, which --deepspeed reads"},
};

Status no_model(const nlohmann::json& json, const std::string& source) {
  for (const auto& [key, what] : other_files) {
    if (!json.is_object() || !json.contains(key)) continue;
    return Status(Code::invalid_argument, fmt::format("{}: is {} (it has {})", source, what, key));
  }
  return Status(Code::invalid_argument,
                fmt::format("{}: architectures is missing, and so is model_type: expected a "
                            "Hugging Face config.json that has one of them, or a module tree "
                            "with \"tessera_model\": 1",
                            source));
}

// Of several classes the first is the file's.
void warn_of_others(JsonReader& config, const std::string& first, Model& model) {
  const auto& json = config.json();
  if (!config.has("architectures") || json["architectures"].size() < 2) return;
  model.warnings.push_back(fmt::format("architectures names {} classes: {}, the first, is built",
                                       json["architectures"].size(), bare_or_quoted(first)));
}

// A model_type beside architectures says the same, or one of both is a mistake.
void check_type(JsonReader& config, const Choice& choice, const std::string& architecture) {
  const std::string type = config.text("model_type", "");
  if (type.empty() || type == choice.model_type()) return;
  if (choice.decoder != nullptr && has_word(choice.decoder->other_names, type)) return;
  config.fail("model_type", of_two_models(bare_or_quoted(type), architecture, choice.model_type()));
}

}  // namespace

std::int64_t integer_of(JsonReader& config, const std::string& keys, std::int64_t least,
                        std::int64_t otherwise) {
  std::string found;
  std::string rest = keys;
  while (!rest.empty()) {
    const auto bar = rest.find('|');
    const std::string key = rest.substr(0, bar);
    rest = bar == std::string::npos ? "" : rest.substr(bar + 1);
    if (found.empty() || !config.has(found.c_str())) found = key;
    if (config.has(key.c_str()) && key != found && config.json()[key] != config.json()[found]) {
      config.fail(key, fmt::format("and {} are the same, but differ: leave one out", found));
    }
  }
  return config.integer(found.c_str(), least, otherwise);
}

std::int64_t labels_of(JsonReader& config) {
  constexpr std::int64_t most = 1'000'000;
  std::int64_t labels = 2;
  if (config.has("id2label")) {
    const nlohmann::json& names = config.json()["id2label"];
    if (!names.is_object() || names.empty()) {
      config.fail("id2label", "must name classes: {\"0\": \"no\", \"1\": \"yes\"}");
      return labels;
    }
    labels = static_cast<std::int64_t>(names.size());
  }
  const std::int64_t named = labels;
  labels = config.integer("num_labels", 1, labels);
  if (config.has("id2label") && labels != named) {
    config.fail("num_labels",
                fmt::format("is {}, but id2label names {}: leave one out", labels, named));
  }
  if (labels <= most) return labels;
  config.fail("num_labels", fmt::format("is {}, more than {}", labels, most));
  return 2;
}

bool fused_experts(JsonReader& config) {
  const std::string version = config.text("transformers_version", "");
  return version.size() >= 2 && version[0] >= '5' && version[0] <= '9' && version[1] == '.';
}

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
  if (architecture.empty()) return no_model(json, source);
  TESSERA_ASSIGN(const auto wrapped, wrapped_text(json, source, architecture));
  if (wrapped) {
    TESSERA_ASSIGN(Model model,
                   hugging_face_model(wrapped->config, source + ": text_config", name));
    model.warnings.insert(model.warnings.begin(), wrapped->warning);
    model.mathematics.refused.push_back(fmt::format(
        "real training knows language models, and not {}", bare_or_quoted(architecture)));
    return model;
  }
  config.take_null_as_false();
  const Choice choice = choose(architecture, config.text("model_type", ""));
  const bool nested = choice.encoder != nullptr && choice.encoder->nested;
  if (!nested) TESSERA_TRY(check_nested(config, choice.found()));
  if (!choice.found()) return unknown(source, key, architecture);
  check_type(config, choice, architecture);
  check_activations(config, choice.model_type());
  check_halves(config, choice.encoder != nullptr);
  check_numbers(config, choice.model_type());
  TESSERA_TRY(config.status());
  Result<Model> model = choice.decoder != nullptr
                            ? decoder_model(*choice.decoder, choice.head, config, name)
                            : choice.encoder->build(config, choice.head, name);
  TESSERA_TRY(model.status());
  const bool trains = choice.decoder != nullptr && choice.decoder->trains;
  if (trains) {
    model->mathematics.padding_token =
        padding_token(config, *choice.decoder, model->parameters[0].shape[0]);
  }
  TESSERA_TRY(check_keys_read(config, choice.model_type(), trains, *model));
  warn_of_others(config, architecture, *model);
  const bool guessed =
      choice.encoder != nullptr && !config.has("architectures") && choice.head != "ForCausalLM";
  if (guessed && words_of(choice.encoder->heads).size() > 1) {
    model->warnings.push_back(guessed_head(choice));
  }
  return model;
}

}  // namespace tessera
