// SPDX-License-Identifier: Apache-2.0
// Checks of option values, with messages that say what would be right.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::cli {

/// A finite number within [least, most].
CLI::Validator within(double least, double most);

/// A whole number of 64 bits.
CLI::Validator any_uint64();
/// Fails: invalid_argument, naming the first option of `command` that was given an empty text, as
/// by
/// "$VARIABLE" of a shell that has no such variable.
Status check_not_empty(const CLI::App& command);

/// A flag that only acts under a condition, and how people say that: "without --save".
struct ConditionalFlag {
  std::string flag;
  bool acts = true;
  std::string otherwise;
};
/// Fails: invalid_argument, naming the first flag that was given to `command` and does not act.
Status check_acting(const CLI::App& command, const std::vector<ConditionalFlag>& flags);

}  // namespace tessera::cli
