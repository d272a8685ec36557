// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a tokenizer, and how a piece of text becomes numbers of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/status.h"

namespace tessera::tokens {

class Vocabulary {
 public:
  /// -1: it has none such.
  std::int32_t find(std::string_view token) const;
  /// Null: no token has this number.
  const std::string* text(std::int32_t id) const;
  /// Of one token with two numbers the later wins. Fails: invalid_argument, if another token has
  /// `number`, or it is no whole one from 0 to 2^24 - 1.
  Status add(const std::string& token, const nlohmann::json& number);
  /// One more than the largest number.
  std::int32_t size() const { return static_cast<std::int32_t>(texts_.size()); }
  /// The first token that was added with two numbers; "": none.
  const std::string& twice() const { return twice_; }
  /// The tokens "<0x00>" to "<0xFF>" of the bytes; empty, if one is not there.
  std::vector<std::int32_t> of_bytes(std::string_view bytes) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  // Looked up only: no order of it reaches a result.
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::string> texts_;
  std::vector<bool> known_;
  std::string twice_;
};

class PieceModel {
 public:
  virtual ~PieceModel() = default;
  /// Adds the numbers of `piece`. Fails: invalid_argument, if it has a character that the
  /// vocabulary has not, and no number for the unknown.
  virtual Status encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The number of what has no token; -1: none.
  std::int32_t unknown() const { return unknown_; }

 protected:
  Vocabulary vocabulary_;
  std::int32_t unknown_ = -1;
};

using MadeModel = Result<std::unique_ptr<PieceModel>>;

/// Byte-pair encoding (arXiv 1508.07909): the pair of the lowest rank is merged, leftmost first.
MadeModel read_bpe(const nlohmann::json& json);
/// The likeliest pieces of a unigram model (arXiv 1804.10959).
MadeModel read_unigram(const nlohmann::json& json);
/// The longest known beginning, again and again (BERT).
MadeModel read_word_piece(const nlohmann::json& json);

}  // namespace tessera::tokens
