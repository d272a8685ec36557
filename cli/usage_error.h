// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line that CLI11 did not take.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tessera::cli {

/// One sentence for what CLI11 found; its own messages say less and have several lines.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tessera::cli
