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
  std::string nvme_path;
  std::int64_t buffer_count = 0;  // DeepSpeed's own defaults: 5 for parameters, 4 for the optimizer
  std::int64_t buffer_size = 100'000'000;
  bool pipeline_read = false;
  bool pipeline_write = false;
  std::int64_t smallest = 1 << 20;
  std::int64_t alignment = 1024;
  bool use_gds = false;
};

void add_offload_options(CLI::App& command, const char* group, OffloadArguments& arguments);
void apply_offload(const OffloadArguments& arguments, Zero3Options& options);

}  // namespace tessera::cli
