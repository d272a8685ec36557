// SPDX-License-Identifier: Apache-2.0
// What `tessera generate` goes on from, and how tokens are shown as they come.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/model.h"
#include "tessera/tokenizer.h"

namespace tessera::cli {

struct PromptArguments {
  std::string text = "\n";
  std::vector<std::int32_t> ids;
  std::string tokenizer;    // tokenizer.json, or a folder with one; "": bytes are tokens
  std::string end_of_text;  // a token of it, or its number; "": the model's eos_token_id; "none"
};

/// How many tokens the model has; 0: it is no language model.
std::int64_t vocabulary_of(const Model& model);

/// The tokens of a run, written to stdout as text, bytes or numbers.
class Prompt {
 public:
  /// Fails: what Tokenizer::open and encode fail with; invalid_argument (a text without a tokenizer
  /// for a model whose tokens are no bytes, no such token). `ends`: the model's eos_token_id.
  static Result<Prompt> open(const PromptArguments& arguments, const Model& model,
                             std::set<std::int32_t> ends);

  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  /// What is not seen of it, and a tokenizer that may be another model's.
  std::vector<std::string> warnings(const Model& model) const;
  /// Prints what is not printed yet and can be: some characters need several tokens.
  Status show(const std::vector<std::int32_t>& tokens);
  /// Prints the rest, and warns of tokens that have no text.
  Status finish();
  bool ends_with(std::int32_t token) const { return ends_.contains(token); }

 private:
  enum class Shows { bytes, numbers, text };
  Status show_text(bool all);
  void keep_readable(const std::vector<std::int32_t>& tokens);
  Status set_ends(const PromptArguments& arguments, std::int64_t vocabulary,
                  std::set<std::int32_t> ends);

  Shows shows_ = Shows::bytes;
  std::vector<std::int32_t> tokens_;
  std::optional<Tokenizer> tokenizer_;
  std::string source_;  // of it
  std::set<std::int32_t> ends_;
  std::size_t seen_ = 0;                // tokens
  std::vector<std::int32_t> readable_;  // those of them that the tokenizer has
  std::size_t shown_ = 0;               // of these, or of all
  std::size_t before_ = 0;              // where the text began that `shown_` ended
};

}  // namespace tessera::cli
