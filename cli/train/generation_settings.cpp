// SPDX-License-Identifier: Apache-2.0
#include "cli/train/generation_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"
#include "engine/text/text_file.h"

namespace tessera::cli {
namespace {

constexpr std::string_view of_choice[] = {
    "do_sample",   "max_length", "max_new_tokens", "repetition_penalty",
    "temperature", "top_k",      "top_p"};

// Keys of transformers 5 that are not followed, and the number (false: 0) with which they do
// nothing; null and what is empty do nothing either.
struct Unfollowed {
  std::string_view key;
  std::optional<double> neutral = {};
};
constexpr Unfollowed unfollowed[] = {{"bad_words_ids"},
                                     {"begin_suppress_tokens"},
                                     {"constraints"},
                                     {"diversity_penalty", 0},
                                     {"dola_layers"},
                                     {"early_stopping", 0},
                                     {"encoder_no_repeat_ngram_size", 0},
                                     {"encoder_repetition_penalty", 1},
                                     {"epsilon_cutoff", 0},
                                     {"eta_cutoff", 0},
                                     {"exponential_decay_length_penalty"},
                                     {"force_words_ids"},
                                     {"forced_bos_token_id"},
                                     {"forced_eos_token_id"},
                                     {"guidance_scale", 1},
                                     {"length_penalty", 1},
                                     {"max_time"},
                                     {"min_length", 0},
                                     {"min_new_tokens", 0},
                                     {"min_p", 0},
                                     {"no_repeat_ngram_size", 0},
                                     {"num_beam_groups", 1},
                                     {"num_beams", 1},
                                     {"num_return_sequences", 1},
                                     {"penalty_alpha", 0},
                                     {"remove_invalid_values", 0},
                                     {"renormalize_logits", 0},
                                     {"sequence_bias"},
                                     {"stop_strings"},
                                     {"suppress_tokens"},
                                     {"token_healing", 0},
                                     {"top_h"},
                                     {"typical_p", 1},
                                     {"watermarking_config"}};

// What others know, or what only says how fast the same tokens come.
constexpr std::string_view without_influence[] = {"_from_model_config",
                                                  "assistant_confidence_threshold",
                                                  "assistant_early_exit",
                                                  "assistant_lookbehind",
                                                  "bos_token_id",
                                                  "cache_config",
                                                  "cache_implementation",
                                                  "compile_config",
                                                  "continuous_batching_config",
                                                  "decoder_start_token_id",
                                                  "disable_compile",
                                                  "eos_token_id",
                                                  "is_assistant",
                                                  "low_memory",
                                                  "max_cache_len",
                                                  "max_matching_ngram_size",
                                                  "num_assistant_tokens",
                                                  "num_assistant_tokens_schedule",
                                                  "output_attentions",
                                                  "output_hidden_states",
                                                  "output_logits",
                                                  "output_scores",
                                                  "pad_token_id",
                                                  "prefill_chunk_size",
                                                  "prompt_lookup_num_tokens",
                                                  "return_dict_in_generate",
                                                  "target_lookbehind",
                                                  "transformers_version",
                                                  "use_cache"};

template <class List>
bool lists(const List& list, std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

bool does_nothing(const nlohmann::json& value, std::optional<double> neutral) {
  if (value.empty() || value == "") return true;  // null, [], {}
  if (value.is_boolean()) return neutral && value.get<bool>() == (*neutral != 0);
  return neutral && value.is_number() && value.get<double>() == *neutral;
}

bool is_unfollowed(std::string_view key, const nlohmann::json& value) {
  const auto* const found = std::find_if(std::begin(unfollowed), std::end(unfollowed),
                                         [&](const Unfollowed& one) { return one.key == key; });
  return found != std::end(unfollowed) && !does_nothing(value, found->neutral);
}

// Of generation_config.json, in which every key is about generation.
Status check_key(const std::string& key, const nlohmann::json& value, const std::string& file,
                 std::vector<std::string>& not_followed) {
  const auto same = [&](const Unfollowed& one) { return one.key == key; };
  const bool known = lists(of_choice, key) || lists(without_influence, key);
  if (known || std::any_of(std::begin(unfollowed), std::end(unfollowed), same)) return {};
  const std::string meant =
      did_you_mean(key, std::vector<std::string_view>(std::begin(of_choice), std::end(of_choice)));
  if (!meant.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: unknown key {}{}", file, in_quotes(key), meant));
  }
  if (!does_nothing(value, {})) not_followed.push_back(key.substr(0, 60));
  return {};
}

class Reader {
 public:
  Reader(const nlohmann::json& json, const std::string& file) : json_(json), keys_(json, file) {
    settings_.file = file;
  }

  Result<GenerationSettings> read() {
    std::vector<std::string> idle;
    settings_.samples = keys_.boolean("do_sample", false);
    settings_.choice = {.temperature = number("temperature", 1, 100, idle),
                        .top_k = keys_.integer("top_k", 0, 50),
                        .top_p = number("top_p", 1, 1, idle),
                        .repetition_penalty = keys_.positive("repetition_penalty", 1)};
    if (settings_.choice.top_k != 50) idle.emplace_back("top_k");
    if (keys_.has("max_new_tokens")) settings_.new_tokens = keys_.integer("max_new_tokens", 1);
    if (keys_.has("max_length")) settings_.length = keys_.integer("max_length", 1);
    if (!settings_.samples && !idle.empty()) {
      settings_.warnings.push_back(
          fmt::format("{}: {} {} nothing without do_sample true: the most likely token is taken, "
                      "unless --temperature is given",
                      settings_.file, fmt::join(idle, ", "), idle.size() == 1 ? "says" : "say"));
    }
    TESSERA_TRY(keys_.status());
    return std::move(settings_);
  }

 private:
  // Named in `idle` if it is not `otherwise`, with which it does nothing.
  double number(const char* key, double otherwise, double most, std::vector<std::string>& idle) {
    if (!keys_.has(key)) return otherwise;
    const nlohmann::json& value = json_.at(key);
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= most)) {
      keys_.fail(key,
                 fmt::format("must be a number from 0 to {}, found {}", most, shown_value(value)));
      return otherwise;
    }
    if (value.get<double>() != otherwise) idle.emplace_back(key);
    return value.get<double>();
  }

  const nlohmann::json& json_;
  JsonReader keys_;
  GenerationSettings settings_;
};

// eos_token_id is a number or a list of them.
Status read_ends(const nlohmann::json& json, const std::string& file, std::int64_t vocabulary,
                 GenerationSettings& settings) {
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return {};
  for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (!id.is_number_integer()) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: eos_token_id must be the number of a token, or a list of "
                                "them, found {}",
                                file, shown_value(*found)));
    }
    if (id >= 0 && id < vocabulary) {
      settings.ends.insert(id.get<std::int32_t>());
    } else {
      settings.warnings.push_back(
          fmt::format("{}: eos_token_id {} is none of the model's {} tokens and ends nothing", file,
                      shown_value(id), vocabulary));
    }
  }
  return {};
}

Result<nlohmann::json> read_object(const std::string& file) {
  TESSERA_TRY(check_no_stream(file));
  TESSERA_ASSIGN(const std::string text, text_of_file(file));
  TESSERA_ASSIGN(nlohmann::json json, parse_json(text, file));
  if (json.is_object()) return json;
  return Status(Code::invalid_argument, fmt::format("{}: is no JSON object", file));
}

}  // namespace

Result<GenerationSettings> read_generation_settings(const std::string& config,
                                                    std::int64_t vocabulary) {
  const auto beside = std::filesystem::path(config).parent_path() / "generation_config.json";
  std::error_code error;
  const bool own = std::filesystem::exists(beside, error);
  const std::string file = own ? beside.string() : config;
  TESSERA_ASSIGN(const nlohmann::json json, read_object(file));
  std::vector<std::string> not_followed;
  bool chooses = own;
  for (const auto& [key, value] : json.items()) {
    if (own) TESSERA_TRY(check_key(key, value, file, not_followed));
    if (is_unfollowed(key, value)) not_followed.push_back(key);
    chooses = chooses || (lists(of_choice, key) && !value.is_null());
  }
  GenerationSettings settings;
  if (chooses) {
    TESSERA_ASSIGN(settings, Reader(json, file).read());
  }
  if (!not_followed.empty()) {
    settings.warnings.push_back(fmt::format("{}: has keys that generate does not follow: {}", file,
                                            fmt::join(not_followed, ", ")));
  }
  TESSERA_TRY(read_ends(json, file, vocabulary, settings));
  if (own && !json.contains("eos_token_id")) {
    TESSERA_ASSIGN(const nlohmann::json model, read_object(config));
    TESSERA_TRY(read_ends(model, config, vocabulary, settings));
  }
  return settings;
}

}  // namespace tessera::cli
