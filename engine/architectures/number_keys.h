// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that change numbers, but neither shapes nor costs: simulation lets them pass
// in families that have them, if their values are possible.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

namespace tessera {

enum class NumberKind {
  flag,
  number,      // not negative
  share,       // from 0 to 1
  activation,  // the name of one
  word,
  scalar,  // a number or a flag
  object,
  list,
  numbers,  // a list of them
  words,    // a list of names
};

struct NumberKey {
  std::string_view name;
  NumberKind kind;
  std::string_view families;  // values of model_type, separated by spaces; "": all
};

/// A family whose keys are those of another but for what it lacks; rows that name it are what it
/// has besides.
struct SameKeys {
  std::string_view model_type, as;
  std::string_view lacks = {};
};

std::span<const NumberKey> number_key_rows();
std::span<const SameKeys> kin_of_keys();

/// The row of the key `name`, or null.
const NumberKey* number_key(std::string_view name);
bool belongs_to(const NumberKey& key, std::string_view model_type);
/// What is wrong with a value that is not null; null if nothing is.
const char* wrong_form(const NumberKey& key, const nlohmann::json& value);
/// Whether transformers has an activation of this name.
bool is_activation(std::string_view name);

}  // namespace tessera
