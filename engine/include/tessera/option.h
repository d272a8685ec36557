// SPDX-License-Identifier: Apache-2.0
// The options of schemes and of a training step as data: each is described once, and flags, JSON,
// traces and tables of the manual follow from that.
//
// The idea: an option struct lists its members in one place (engine/schemes/*/options.cpp). A value
// can be written as an `OptionValue` and read back, so that programs which let their users choose
// need not know the structs.
//
//   for (const Option& option : options_known_to("zero3")) use(flag_of(option), option.help);
//   TESSERA_ASSIGN(Scheme scheme, scheme_named("zero3"));
//   TESSERA_TRY(set_option(scheme, "reduce_bucket", std::int64_t{1000}));   // tessera/scheme.h
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/status.h"

namespace tessera {

/// A value as JSON has it: true, 3, 0.5, "strict", ["h.0", "h.1"].
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;
using OptionValues = std::vector<std::pair<std::string, OptionValue>>;  // by name

enum class OptionKind : std::uint8_t { flag, integer, number, word, text, list };

/// "Only where `option` is one of `words`."
struct OptionNeed {
  std::string option;
  std::vector<std::string> words;
};

struct Option {
  std::string name;                    // in JSON and in traces: "bucket_cap"
  std::string help;                    // what it is, in one line
  std::string more;                    // what tables of the manual say besides
  std::string unit;                    // "bytes", "elements", "ranks"; empty: none
  std::vector<std::string> words;      // of OptionKind::word
  std::string unset;                   // the word for an optional member without a value
  double least = 0;                    // of numbers
  double most = 9.3e18;                // beyond what 64 bits hold: no limit
  std::vector<std::string> schemes;    // those of its struct that know it; empty: all
  std::vector<OptionNeed> needs;       // it means nothing unless one of these holds; empty: always
  std::vector<std::string> deepspeed;  // keys that mean the same, below zero_optimization or aio
  std::string flag;                    // where it does not follow from the name
  bool only_real = false;              // acts in runs with real numbers alone

  // These follow from the member.
  OptionKind kind = OptionKind::flag;
  OptionValue standard = false;  // the default
};

/// Options of one struct.
struct OptionFamily {
  std::string title;                 // "DDP: replicate"
  std::vector<std::string> schemes;  // whose options they are
  std::vector<Option> options;
};

/// "--bucket-cap"; of what is on unless it is switched off "--no-init-sync".
std::string flag_of(const Option& option);

/// As a flag's argument has it: "true", "3", "0.5", "strict", "h.0,h.1".
std::string to_text(const OptionValue& value);

/// A flag's argument as a value. A flag without an argument has "true" or, if its name says so,
/// "false". Fails: invalid_argument, with the flag and what would be right.
Result<OptionValue> parse_option(const Option& option, const std::string& text);

/// Messages have the names or the flags of options.
enum class OptionSpelling : std::uint8_t { names, flags };

/// Fails: invalid_argument, naming the first of the options `given` by a user that means nothing
/// because of the others: "reshard_group" where nothing is resharded to a group. `whom`: "to the
/// scheme zero3 ". REQUIRES: `values` are those of `known`, to which those of `given` belong.
Status check_needs(const std::vector<Option>& known, const OptionValues& values,
                   const std::vector<std::string>& given, const std::string& whom,
                   OptionSpelling spelling);

/// `value` in the option's own form: whole numbers where numbers are, "float32" for "fp32".
/// Fails: invalid_argument (another kind of value, out of range, an unknown word); the message
/// begins with `name`.
Result<OptionValue> checked_option(const Option& option, const OptionValue& value,
                                   const std::string& name);

}  // namespace tessera
