// SPDX-License-Identifier: Apache-2.0
#include "cli/train/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

namespace tessera::cli {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

Status without_tokens() {
  return Status(Code::invalid_argument, "--prompt: the text has no tokens: give another");
}

}  // namespace

std::int64_t vocabulary_of(const Model& model) {
  return model.parameters.empty() || model.parameters[0].shape.empty()
             ? 0
             : model.parameters[0].shape[0];
}

Status Prompt::set_ends(const PromptArguments& a, std::int64_t vocabulary,
                        std::set<std::int32_t> ends) {
  if (a.end_of_text == "none") return {};
  if (a.end_of_text.empty()) {
    ends_ = std::move(ends);
    return {};
  }
  std::int32_t id = -1;
  if (tokenizer_) {
    id = tokenizer_->find(a.end_of_text);
  } else {
    const char* const end = a.end_of_text.data() + a.end_of_text.size();
    const auto [at, wrong] = std::from_chars(a.end_of_text.data(), end, id);
    if (wrong != std::errc{} || at != end || id >= vocabulary) id = -1;
  }
  if (id >= 0) {
    ends_.insert(id);
    return {};
  }
  return Status(
      Code::invalid_argument,
      tokenizer_ ? fmt::format("--end-of-text {}: {} has no such token", a.end_of_text, a.tokenizer)
                 : fmt::format("--end-of-text {}: is no number of a token below {}: give "
                               "one, or name the tokenizer with --tokenizer",
                               a.end_of_text, vocabulary));
}

Result<Prompt> Prompt::open(const PromptArguments& a, const Model& model,
                            std::set<std::int32_t> ends) {
  Prompt prompt;
  const std::int64_t vocabulary = vocabulary_of(model);
  if (!a.tokenizer.empty()) {
    TESSERA_ASSIGN(prompt.tokenizer_, Tokenizer::open(a.tokenizer));
    prompt.shows_ = Shows::text;
  }
  TESSERA_TRY(prompt.set_ends(a, vocabulary, std::move(ends)));
  if (!a.ids.empty()) {
    for (const std::int32_t id : a.ids) {
      if (id >= 0 && id < vocabulary) continue;
      return Status(Code::invalid_argument,
                    fmt::format("--prompt-ids: token {} is none of the {} of {}", id, vocabulary,
                                model.name));
    }
    prompt.tokens_ = a.ids;
    if (a.tokenizer.empty()) prompt.shows_ = Shows::numbers;
    return prompt;
  }
  if (prompt.tokenizer_) {
    auto encoded = prompt.tokenizer_->encode(a.text);
    if (!encoded.ok()) {
      return Status(encoded.status().code(), "--prompt: " + encoded.status().message());
    }
    prompt.tokens_ = std::move(*encoded);
    if (!prompt.tokens_.empty()) return prompt;
    return without_tokens();
  }
  if (vocabulary != byte_vocabulary) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: its {} tokens are no bytes: name its tokenizer.json with "
                              "--tokenizer, or give token numbers with --prompt-ids",
                              model.name, vocabulary));
  }
  if (a.text.empty()) return without_tokens();
  for (const char byte : a.text) prompt.tokens_.push_back(static_cast<unsigned char>(byte));
  return prompt;
}

std::vector<std::string> Prompt::warnings(const Model& model) const {
  std::vector<std::string> all;
  if (tokenizer_) all = tokenizer_->warnings();
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
