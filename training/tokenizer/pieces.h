// SPDX-License-Identifier: Apache-2.0
// The steps before a tokenizer's model: normalisers change a text, pre-tokenisers cut it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {

/// A part of a text, however it was changed so far.
struct Piece {
  std::string text;
  /// Bytes at its beginning that became of the whole text's first character, or stand before it.
  std::size_t head = 0;

  bool first() const { return head > 0; }
  Piece part(std::size_t begin, std::size_t end) const;
  /// `what` becomes of the first character.
  void prepend(const std::string& what);
  /// `content` becomes of the last character that it replaces.
  void replace(const Pattern& what, const std::string& content);
};

/// A piece after a step; empty functions do nothing.
using Normaliser = std::function<Piece(Piece)>;
/// Cuts each piece into further ones.
using PreTokeniser = std::function<std::vector<Piece>(const Piece&)>;

/// Fail: not_supported, naming a type that is unknown; invalid_argument.
Result<Normaliser> read_normaliser(const nlohmann::json& json);
Result<PreTokeniser> read_pre_tokeniser(const nlohmann::json& json);

/// Cuts all pieces.
std::vector<Piece> cut(const PreTokeniser& with, const std::vector<Piece>& pieces);

}  // namespace tessera::tokens
