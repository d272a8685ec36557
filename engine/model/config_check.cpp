// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_check.h"

#include <fmt/format.h>

#include <vector>

#include "engine/model/config_keys.h"
#include "engine/model/number_keys.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

bool known_elsewhere(std::string_view name, const std::string& model_type, bool trains) {
  const NumberKey* number = number_key(name);
  const bool listed = number != nullptr && belongs_to(*number, model_type);
  return (listed && !trains) || in_table(name, model_type) || without_influence_on_costs(name);
}

}  // namespace

Status check_nested(const JsonReader& config, bool known) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    if (!config.has(key)) continue;
    const char* why = known ? "but sizes of this architecture are read at the top"
                            : "a model of more than text, which is not built";
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} is an object in the file, {}: give the text model's own "
                              "config.json, with its architectures or model_type",
                              config.source(), key, why));
  }
  return {};
}

void check_activations(JsonReader& config, const std::string& model_type) {
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function", "activation",
                          "feed_forward_proj", "dense_act_fn"}) {
    const auto& json = config.json();
    if (!json.contains(key) || !json[key].is_string()) continue;
    const auto name = json[key].get<std::string>();
    const bool built = name == "xielu" && model_type == "apertus";
    if (built || (!name.ends_with("xielu") && !name.ends_with("prelu"))) continue;
    config.fail(key, fmt::format("is {}, which has trained parameters of its own that are not "
                                 "built for {}: describe the model as a module tree",
                                 name, model_type));
  }
}

void check_halves(JsonReader& config, bool encoder) {
  if (config.boolean("add_cross_attention", false)) {
    config.fail("add_cross_attention",
                "is true, but attention to an encoder is not built for "
                "this architecture: describe the model as a module tree");
  }
  if (!encoder && config.boolean("is_encoder_decoder", false)) {
    config.fail("is_encoder_decoder",
                "is true, but this architecture is built as a decoder "
                "alone: describe the model as a module tree");
  }
  config.boolean("is_decoder", false);
  config.boolean("tie_word_embeddings", true);
  if (!config.has("pruned_heads")) return;
  const nlohmann::json& heads = config.json()["pruned_heads"];
  if (!heads.is_object() && !heads.is_array()) return config.fail("pruned_heads", "must be {}");
  if (!heads.empty()) {
    config.fail("pruned_heads",
                "names heads, but models are built with all of them: describe the "
                "model as a module tree");
  }
}

Status check_keys_read(JsonReader& config, const std::string& model_type, bool trains,
                       Model& model) {
  std::vector<std::string_view> missing;  // that would have acted
  for (const std::string& key : config.asked()) {
    if (!config.json().contains(key)) missing.push_back(key);
  }
  std::string unknown;
  for (const auto& [name, value] : config.json().items()) {
    const NumberKey* number = number_key(name);
    const char* wrong = number == nullptr ? nullptr : wrong_form(*number, value);
    if (wrong != nullptr && !value.is_null()) {
      config.fail(name, fmt::format("{}, found {}", wrong, shown_value(value)));
      return config.status();
    }
    if (config.asked().contains(name) || known_elsewhere(name, model_type, trains)) continue;
    const std::string_view meant = nearest_word(name, missing);
    if (number == nullptr && !meant.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: unknown key {}, did you mean {}?", config.source(),
                                in_quotes(name), in_quotes(meant)));
    }
    if (value.is_null()) continue;
    constexpr std::size_t longest = 60, most = 1500;
    if (unknown.size() < most) {
      unknown += (unknown.empty() ? "" : ", ") + name.substr(0, longest) +
                 (name.size() > longest ? "..." : "");
    } else if (!unknown.ends_with(" ...")) {
      unknown += " and more ...";
    }
  }
  if (!unknown.empty()) {
    model.warnings.push_back(
        fmt::format("keys that mean nothing to {} here are ignored: {}", model_type, unknown));
  }
  if (config.has("quantization_config")) {
    model.warnings.push_back(
        fmt::format("quantization_config is ignored: weights are counted as {}, not quantized",
                    name_of(model.dtype)));
  }
  return {};
}

}  // namespace tessera
