// SPDX-License-Identifier: Apache-2.0
// Flags that follow from lists of options (tessera/option.h).
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "tessera/option.h"

namespace tessera::cli {

/// What was given, by flag: {"--bucket-cap", "1000"}, {"--no-init-sync", "false"}.
using GivenFlags = std::map<std::string, std::string>;

/// Adds the option's flag; what is given goes to `given`, which must outlive the command. `shown`:
/// the default in the help.
void add_option_flag(CLI::App& command, const Option& option, const std::string& group,
                     const std::string& shown, GivenFlags& given);

/// The default as a help text shows it; nothing for flags and empty lists.
std::string shown_default(const Option& option);

}  // namespace tessera::cli
