// SPDX-License-Identifier: Apache-2.0
// From text to tokens and back, as the tokenizer.json of a published model says.
//
// The idea: such a file describes every step (normaliser, pre-tokeniser, model, post-processor,
// decoder), so one reader serves all models, and their numbers are those of Hugging Face's
// `tokenizers`. A step that is not known here is refused with its name: almost right tokens would
// train a model that nobody can use.
//
//   TESSERA_ASSIGN(const Tokenizer tokenizer, Tokenizer::open("Llama-3/tokenizer.json"));
//   TESSERA_ASSIGN(const auto tokens, tokenizer.encode("to see it"));
//   TESSERA_ASSIGN(const std::string text, tokenizer.decode(tokens));
//
// Models are BPE (with bytes, as GPT-2, Llama 3 and Qwen, or with a fallback to them), Unigram and
// WordPiece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera {

/// The tokens around a text that its model expects, such as one for its beginning.
enum class SpecialTokens : std::uint8_t { added, left_out };

/// A handle: copies share one vocabulary. Several threads may use it at the same time.
class Tokenizer {
 public:
  /// `path`: the file, or a folder with a tokenizer.json. Fails: io_error; invalid_argument (no
  /// JSON, a step that is not as it should be, a tokenizer_config.json beside it that is none);
  /// not_supported (a step of an unknown type, another version than 1.0, a build without ICU), all
  /// naming file and step.
  static Result<Tokenizer> open(const std::string& path);
  /// As `open`, from text; `source` names it in messages.
  static Result<Tokenizer> parse(std::string_view json, const std::string& source);

  /// Fails: invalid_argument (no UTF-8, naming the byte; a character without a token).
  Result<std::vector<std::int32_t>> encode(std::string_view text,
                                           SpecialTokens special = SpecialTokens::added) const;
  /// What the tokens say; those that are special are left out, or written as they are called.
  /// Fails: invalid_argument, for a number that no token has.
  Result<std::string> decode(std::span<const std::int32_t> tokens,
                             SpecialTokens special = SpecialTokens::left_out) const;

  /// What its files say and nobody here follows, a sentence each.
  std::vector<std::string> warnings() const;
  /// One more than the largest number of a token.
  std::int32_t size() const;
  /// Whether a token has this number: between others there may be gaps.
  bool has(std::int32_t token) const;
  /// The number of the token that is written `text` in the vocabulary, -1: there is none.
  std::int32_t find(std::string_view text) const;
  /// The number that stands for text without a token, -1: there is none.
  std::int32_t unknown() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace tessera
