// SPDX-License-Identifier: Apache-2.0
// The steps before a tokenizer's model: normalisers change a text, pre-tokenisers cut it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::tokens {

/// A text after a step; empty functions do nothing.
using Normaliser = std::function<std::string(std::string)>;

struct Piece {
  std::string text;
  bool first = false;  // it begins where the whole text does
};
/// Cuts each piece into further ones.
using PreTokeniser = std::function<std::vector<Piece>(const Piece&)>;

/// Fail: not_supported, naming a type that is unknown; invalid_argument.
Result<Normaliser> read_normaliser(const nlohmann::json& json);
Result<PreTokeniser> read_pre_tokeniser(const nlohmann::json& json);

/// Cuts all pieces.
std::vector<Piece> cut(const PreTokeniser& with, const std::vector<Piece>& pieces);

}  // namespace tessera::tokens
