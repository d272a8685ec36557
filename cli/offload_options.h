// SPDX-License-Identifier: Apache-2.0
// The options that say where zero3 keeps partitions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tessera/zero3.h"

namespace tessera::cli {

struct OffloadArguments {
  std::string param = "none";
  std::string optimizer = "none";
  double ratio = 1;
};

void add_offload_options(CLI::App& command, const char* group, OffloadArguments& arguments);
void apply_offload(const OffloadArguments& arguments, Zero3Options& options);

}  // namespace tessera::cli
