// SPDX-License-Identifier: Apache-2.0
#include "engine/architectures/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/architectures/config_keys.h"
#include "engine/architectures/number_keys.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

// What every class of transformers needs: null is another thing than a missing key there. Keys
// that may be null say that something is not there (sliding_window), or as large as another
// size (head_dim, n_inner).
constexpr std::string_view needed[] = {
    "activation_function",
    "afn",
    "attention_heads",
    "classifier_proj_size",
    "conv_kernel_size",
    "d_ff",
    "d_kv",
    "d_model",
    "decoder_attention_heads",
    "decoder_ffn_dim",
    "decoder_layers",
    "decoder_sparse_step",
    "decoder_vocab_size",
    "dense_act_fn",
    "dim",
    "embedding_size",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "encoder_layers",
    "expansion_ratio",
    "ffn_dim",
    "first_k_dense_replace",
    "hidden_act",
    "hidden_activation",
    "hidden_dim",
    "hidden_size",
    "image_size",
    "interleave_moe_layer_step",
    "intermediate_size",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "max_position_embeddings",
    "max_seq_len",
    "max_source_positions",
    "max_target_positions",
    "max_window_layers",
    "mlp_ratio",
    "moe_intermediate_size",
    "moe_k",
    "moe_layer_end_index",
    "moe_layer_interval",
    "moe_layer_start_index",
    "moe_num_experts",
    "moe_num_shared_experts",
    "n_embd",
    "n_head",
    "n_heads",
    "n_layer",
    "n_layers",
    "n_positions",
    "n_routed_experts",
    "n_shared_experts",
    "no_rope_layer_interval",
    "norm_eps",
    "norm_epsilon",
    "norm_rel_ebd",
    "num_attention_heads",
    "num_channels",
    "num_experts",
    "num_experts_per_tok",
    "num_feat_extract_layers",
    "num_heads",
    "num_hidden_layers",
    "num_labels",
    "num_layers",
    "num_local_experts",
    "num_mel_bins",
    "num_shared_experts",
    "patch_size",
    "pooler_hidden_size",
    "position_buckets",
    "projection_dim",
    "projection_size",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "query_pre_attn_scalar",
    "relative_attention_num_buckets",
    "rms_norm_eps",
    "rope_theta",
    "shared_expert_intermediate_size",
    "type_vocab_size",
    "v_head_dim",
    "vocab_size",
    "window_size",
};

constexpr std::pair<std::string_view, std::string_view> excepted[] = {
    {"hidden_activation", "gemma"},           {"intermediate_size", "gpt_neo"},
    {"moe_intermediate_size", "gemma4_text"}, {"num_experts", "gemma4_text"},
    {"num_experts_per_tok", "deepseek_v2"},   {"v_head_dim", "minicpm3"},
};

// A number of the vocabulary; several may end a text.
bool is_token(const std::string& key, const nlohmann::json& value) {
  if (value.is_null() || value.is_number_integer()) return true;
  if (key != "eos_token_id" || !value.is_array()) return false;
  return std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& one) { return one.is_number_integer(); });
}

// Families whose embedding is told which row pads.
bool knows_padding(std::string_view model_type) {
  constexpr std::string_view untold =
      " bloom clip_text_model codegen falcon falcon_mamba gpt-sw3 gpt2 gpt_bigcode gpt_neo "
      "gpt_neox gptj mpnet hubert mamba mamba2 mpt mt5 openai-gpt siglip_text_model t5 umt5 "
      "wav2vec2 ";
  return untold.find(fmt::format(" {} ", model_type)) == std::string_view::npos;
}

void check_padding(JsonReader& config, const std::string& model_type) {
  if (!knows_padding(model_type)) return;
  if (!config.has("pad_token_id") || !config.has("vocab_size")) return;
  const nlohmann::json& token = config.json()["pad_token_id"];
  const nlohmann::json& rows = config.json()["vocab_size"];
  if (!token.is_number_integer() || !rows.is_number_integer()) return;
  const auto least = -rows.get<double>();
  if (token.get<double>() >= least && token.get<double>() < -least) return;
  config.fail("pad_token_id", fmt::format("is {}, but vocab_size is {}: there is no such token",
                                          shown_value(token), shown_value(rows)));
}

bool are_numbered(const nlohmann::json& names) {
  if (!names.is_object()) return false;
  for (const auto& [number, name] : names.items()) {
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return false;
  }
  return true;
}

bool known_elsewhere(std::string_view name, const std::string& model_type, bool trains) {
  const NumberKey* number = number_key(name);
  const bool listed = number != nullptr && belongs_to(*number, model_type);
  // check_numbers looked at those.
  return name.ends_with("_token_id") || (listed && !trains) || in_table(name, model_type) ||
         without_influence_on_costs(name);
}

}  // namespace

std::string of_two_models(const std::string& shown_type, const std::string& architecture,
                          std::string_view its_type) {
  return fmt::format("is {}, but architectures names {}, which is {}: one of them is wrong",
                     shown_type, bare_or_quoted(architecture), its_type);
}

Status check_nested(const JsonReader& config, bool known) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    // Not asked for: no other key is this one misspelt.
    if (!config.json().contains(key) || config.json()[key].is_null()) continue;
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

void check_numbers(JsonReader& config, const std::string& model_type) {
  for (const auto& [key, value] : config.json().items()) {
    const bool needs = std::binary_search(std::begin(needed), std::end(needed), key) &&
                       std::find(std::begin(excepted), std::end(excepted),
                                 std::pair{std::string_view(key), std::string_view(model_type)}) ==
                           std::end(excepted);
    if (needs && value.is_null()) {
      config.fail(key,
                  "is null, which transformers does not take: give a value, or leave the key out "
                  "for its default");
    }
    if (key.ends_with("_token_id") && !is_token(key, value)) {
      config.fail(key, fmt::format("must be the number of a token, found {}", shown_value(value)));
    }
  }
  check_padding(config, model_type);
  if (config.has("id2label") && !are_numbered(config.json()["id2label"])) {
    config.fail("id2label", "must name classes by number: {\"0\": \"no\", \"1\": \"yes\"}");
  }
  config.integer("num_labels", 0, 2);
}

std::int64_t padding_token(const JsonReader& config, const Family& family, std::int64_t rows) {
  if (!knows_padding(family.model_type)) return -1;
  const nlohmann::json& json = config.json();
  const auto said = json.find("pad_token_id");
  if (said != json.end()) {
    if (!said->is_number_integer()) return -1;
    const auto token = said->get<std::int64_t>();
    const bool inside = token >= -rows && token < rows;  // else check_padding did not know the rows
    return !inside ? -1 : token < 0 ? token + rows : token;
  }
  return family.padding_token < rows ? family.padding_token : -1;
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

void add_key(std::string& list, std::string_view key) {
  constexpr std::size_t most = 1500;
  if (list.size() < most) {
    list += (list.empty() ? "" : ", ") + bare_or_quoted(key);
  } else if (!list.ends_with(" ...")) {
    list += " and more ...";
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
    const bool own =
        number != nullptr && (belongs_to(*number, model_type) || in_table(name, model_type));
    const char* wrong = own ? wrong_form(*number, value) : nullptr;  // of others named below
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
    add_key(unknown, name);
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
