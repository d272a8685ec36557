// SPDX-License-Identifier: Apache-2.0
#include "cli/train/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

namespace tessera::cli {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

std::int64_t vocabulary_of(const Model& model) {
  return model.parameters.empty() || model.parameters[0].shape.empty()
             ? 0
             : model.parameters[0].shape[0];
}

}  // namespace

// eos_token_id is a number or a list of them.
Status Prompt::read_ends(const PromptArguments& a, const std::string& config) {
  if (a.end_of_text == "none") return {};
  if (!a.end_of_text.empty()) {
    const std::int32_t id = tokenizer_->find(a.end_of_text);
    if (id < 0) {
      return Status(Code::invalid_argument, fmt::format("--end-of-text {}: {} has no such token",
                                                        a.end_of_text, a.tokenizer));
    }
    ends_.insert(id);
    return {};
  }
  std::ifstream file(config);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("eos_token_id")) return {};
  const auto& value = json["eos_token_id"];
  const auto add = [&](const nlohmann::json& id) {
    if (id.is_number_integer()) ends_.insert(id.get<std::int32_t>());
  };
  for (const auto& id : value.is_array() ? value : nlohmann::json::array({value})) add(id);
  return {};
}

Result<Prompt> Prompt::open(const PromptArguments& a, const Model& model,
                            const std::string& config) {
  Prompt prompt;
  const std::int64_t vocabulary = vocabulary_of(model);
  if (!a.tokenizer.empty()) {
    TESSERA_ASSIGN(prompt.tokenizer_, Tokenizer::open(a.tokenizer));
    TESSERA_TRY(prompt.read_ends(a, config));
    prompt.shows_ = Shows::text;
  }
  if (!a.ids.empty()) {
    prompt.tokens_ = a.ids;
    if (a.tokenizer.empty()) prompt.shows_ = Shows::numbers;
    return prompt;
  }
  if (prompt.tokenizer_) {
    TESSERA_ASSIGN(prompt.tokens_, prompt.tokenizer_->encode(a.text));
    if (!prompt.tokens_.empty()) return prompt;
    return Status(Code::invalid_argument, "--prompt: the text has no tokens: give another");
  }
  if (vocabulary != byte_vocabulary) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: its {} tokens are no bytes: name its tokenizer.json with "
                              "--tokenizer, or give token numbers with --prompt-ids",
                              model.name, vocabulary));
  }
  for (const char byte : a.text) prompt.tokens_.push_back(static_cast<unsigned char>(byte));
  return prompt;
}

std::vector<std::string> Prompt::warnings(const Model& model) const {
  std::vector<std::string> all;
  const auto places =
      static_cast<std::size_t>(std::max<std::int64_t>(model.sequence_length_max, 1));
  if (tokens_.size() > places) {
    all.push_back(
        fmt::format("the prompt has {} tokens, but {} places for {}: the first {} are not "
                    "seen",
                    tokens_.size(), model.name, places, tokens_.size() - places));
  }
  const std::int64_t vocabulary = vocabulary_of(model);
  if (tokenizer_ && tokenizer_->size() > vocabulary) {
    all.push_back(
        fmt::format("the tokenizer has tokens up to {}, the model up to {}: is it of "
                    "another model, or were tokens added to it?",
                    tokenizer_->size() - 1, vocabulary - 1));
  }
  return all;
}

// What tokens say depends on those before them, so a few of these are decoded again each time. A
// text that ends with U+FFFD may be the beginning of a character.
Status Prompt::show_text(const std::vector<std::int32_t>& tokens, bool all) {
  const std::span ids(tokens);
  TESSERA_ASSIGN(const std::string old, tokenizer_->decode(ids.subspan(before_, shown_ - before_)));
  TESSERA_ASSIGN(const std::string now, tokenizer_->decode(ids.subspan(before_)));
  if (now.size() <= old.size() || (!all && now.ends_with("\xEF\xBF\xBD"))) return {};
  fmt::print("{}", now.substr(old.size()));
  before_ = shown_;
  shown_ = tokens.size();
  return {};
}

Status Prompt::show(const std::vector<std::int32_t>& tokens) {
  if (shows_ == Shows::text) {
    TESSERA_TRY(show_text(tokens, false));
  } else {
    for (; shown_ < tokens.size(); ++shown_) {
      if (shows_ == Shows::bytes) {
        std::fputc(tokens[shown_], stdout);
      } else {
        fmt::print("{} ", tokens[shown_]);
      }
    }
  }
  std::fflush(stdout);
  return {};
}

Status Prompt::finish(const std::vector<std::int32_t>& tokens) {
  if (shows_ == Shows::text) TESSERA_TRY(show_text(tokens, true));
  fmt::print("\n");
  return {};
}

}  // namespace tessera::cli
