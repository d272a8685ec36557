// SPDX-License-Identifier: Apache-2.0
// The sub-commands and options of the program as text: pages of the manual, completion in shells.
//
// The idea: the parser has all of it, so nothing is written down twice.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera::cli {

/// An option or positional, as people write it.
struct OptionText {
  std::vector<std::string> names;  // "-q", "--quiet"; of a positional its own
  std::string value;               // "INT", "{none,cpu,nvme}"; "" of a flag
  std::vector<std::string> words;  // the values that it may have, if they are listed
  std::string usual, text, group;
  bool positional = false;
};

/// A sub-command without sub-commands of its own: "simulate", "trace verify".
struct CommandText {
  std::string name, text, footer;
  std::vector<OptionText> options;
};

std::vector<CommandText> commands_of(const CLI::App& app);

/// The script that makes `shell` (bash, zsh or fish) complete sub-commands, options and their
/// words. REQUIRES: one of them.
std::string completion(const std::vector<CommandText>& commands, const std::string& shell);

/// Pages of section 1 in roff, by file name: tessera.1, tessera-simulate.1, ...
std::vector<std::pair<std::string, std::string>> manual_pages(
    const std::vector<CommandText>& commands, const std::string& version);

}  // namespace tessera::cli
