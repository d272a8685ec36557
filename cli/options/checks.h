// SPDX-License-Identifier: Apache-2.0
// Checks of option values, with messages that say what would be right.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::cli {

/// A finite number within [least, most].
CLI::Validator within(double least, double most);

}  // namespace tessera::cli
