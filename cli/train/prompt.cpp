// SPDX-License-Identifier: Apache-2.0
#include "cli/train/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "cli/command.h"

namespace tessera::cli {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

Status without_tokens() {
  return Status(Code::invalid_argument, "--prompt: the text has no tokens: give another");
}

Status check_known(const char* option, const std::vector<std::int32_t>& ids, const Model& model) {
  const std::int64_t vocabulary = vocabulary_of(model);
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    return Status(Code::invalid_argument, fmt::format("{}: token {} is none of the {} of {}",
                                                      option, id, vocabulary, model.name));
  }
  return {};
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
    prompt.source_ = a.tokenizer;
  }
  TESSERA_TRY(prompt.set_ends(a, vocabulary, std::move(ends)));
  if (!a.ids.empty()) {
    TESSERA_TRY(check_known("--prompt-ids", a.ids, model));
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
    if (prompt.tokens_.empty()) return without_tokens();
    TESSERA_TRY(check_known("--prompt", prompt.tokens_, model));
    return prompt;
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
Status Prompt::show_text(bool all) {
  const std::span ids(readable_);
  TESSERA_ASSIGN(const std::string old, tokenizer_->decode(ids.subspan(before_, shown_ - before_)));
  TESSERA_ASSIGN(const std::string now, tokenizer_->decode(ids.subspan(before_)));
  if (now.size() <= old.size() || (!all && now.ends_with("\xEF\xBF\xBD"))) return {};
  fmt::print("{}", now.substr(old.size()));
  before_ = shown_;
  shown_ = readable_.size();
  return {};
}

// A model's vocabulary is often rounded up, so it may choose numbers that no token has. As
// elsewhere they have no text.
void Prompt::keep_readable(const std::vector<std::int32_t>& tokens) {
  for (; seen_ < tokens.size(); ++seen_) {
    if (tokenizer_->has(tokens[seen_])) readable_.push_back(tokens[seen_]);
  }
}

Status Prompt::show(const std::vector<std::int32_t>& tokens) {
  if (shows_ == Shows::text) {
    keep_readable(tokens);
    TESSERA_TRY(show_text(false));
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

Status Prompt::finish() {
  if (shows_ == Shows::text) TESSERA_TRY(show_text(true));
  fmt::print("\n");
  if (shows_ != Shows::text || readable_.size() == seen_) return {};
  std::fflush(stdout);
  print_warnings(
      {fmt::format("{} of the {} tokens have no text: their numbers are none of {}, "
                   "which has fewer than the model: is it of another model?",
                   seen_ - readable_.size(), seen_, source_)});
  return {};
}

}  // namespace tessera::cli
