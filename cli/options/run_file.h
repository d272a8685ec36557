// SPDX-License-Identifier: Apache-2.0
// The options of a run in a file, as TOML has them: read (with_run_file in cli/command.h does), and
// written as they were.
//
// The idea: a key is an option, so that a file says nothing that the command line cannot, and what
// is written on the command line wins.
//
//   model = "config.json"            # the positional argument
//   [optimizer]                      # sections are those of the help, and only for the eye
//   learning_rate = 3e-4             # --learning-rate
//   data = ["web.bin", "code.bin:2"]
//   quiet = true                     # a flag
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::cli {

struct RunFileEntry {
  std::string section, key;         // no key: the section begins
  std::vector<std::string> values;  // one, or those of an array
  int line = 0;
};

/// Strings, numbers, booleans and arrays of them, in sections. Fails: invalid_argument (anything
/// else of TOML; a key twice), naming source and line.
Result<std::vector<RunFileEntry>> parse_run_file(std::string_view text, const std::string& source);

/// All options of a command that was parsed: those that were given as keys, the others as comments
/// with their defaults. `extra` comes as if it had been given.
std::string run_file_text(const CLI::App& command, const std::string& comment,
                          const std::vector<RunFileEntry>& extra);

}  // namespace tessera::cli
