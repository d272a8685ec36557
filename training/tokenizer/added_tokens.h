// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in a text before anything cuts it: <|endoftext|> and its like.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/piece_model.h"
#include "training/tokenizer/pieces.h"

namespace tessera::tokens {

/// A part of a text: a token that was found, or what lies between.
struct Section {
  std::int32_t token = -1;  // -1: text
  Piece piece;
};

class AddedTokens {
 public:
  /// Adds them to `vocabulary` as well. Fails: not_supported, invalid_argument.
  Status read(const nlohmann::json& json, const Normaliser& normaliser, Vocabulary& vocabulary);

  /// Finds those that are looked for before normalisation, or after it.
  std::vector<Section> in_raw(std::string_view text) const;
  std::vector<Section> in_normalised(const Piece& piece) const { return find(normalised_, piece); }
  bool is_special(std::int32_t id) const { return special_.contains(id); }
  bool has(std::int32_t id) const { return all_.contains(id); }

 private:
  struct Added {
    std::string text;
    std::int32_t id;
    bool takes_space_before, takes_space_behind;
  };
  /// By the first byte, the longest first.
  using ByFirst = std::vector<std::vector<Added>>;
  static std::vector<Section> find(const ByFirst& tokens, const Piece& whole);

  ByFirst raw_ = ByFirst(256), normalised_ = ByFirst(256);
  std::set<std::int32_t> special_, all_;
};

}  // namespace tessera::tokens
