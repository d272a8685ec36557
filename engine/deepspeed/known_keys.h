// SPDX-License-Identifier: Apache-2.0
// Keys of DeepSpeed that no code here asks for, and what they would have changed.
//
// The idea: a key acts because code asks for it (ConfigObject); every other one that DeepSpeed
// knows has a row in one table, so a file's key is either obeyed, or said, or refused.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace tessera {

enum class KeyEffect {
  none,     // on nothing that is shown here
  numbers,  // on what training computes, not on time or memory
  cost,     // on time or memory
  refused,  // on everything: without it another run would be shown
  section,  // none of its own: its keys have rows
};

struct KnownKey {
  std::string_view path;  // "zero_optimization.memory_efficient_linear"
  KeyEffect effect = KeyEffect::none;
  std::string_view why = {};  // what it would change, or why it changes nothing; may be empty
  /// Values with which it changes nothing, as JSON: "false|0"; "disabled": an object whose
  /// `enabled` is not true.
  std::string_view off = {};
};

/// All rows, in no order.
const std::vector<KnownKey>& known_keys();

/// The row of a key; nullptr: there is none.
const KnownKey* known_key(std::string_view path);

/// Whether the key has a value that changes nothing.
bool is_off(const KnownKey& key, const nlohmann::json& value);

/// Whether DeepSpeed takes null for the key at `path`, as if it were not given. Fields of its
/// classes and sections do not take it unless they may be none; what training computes with it
/// would fail in the first step.
bool takes_null(std::string_view path);

}  // namespace tessera
