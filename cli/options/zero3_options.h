// SPDX-License-Identifier: Apache-2.0
// The options of zero3.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options/given_dtypes.h"
#include "cli/options/offload_options.h"
#include "tessera/scheme.h"

namespace tessera::cli {

inline constexpr const char* zero3_group = "ZeRO-3: zero3 (sizes in elements)";

struct Zero3Arguments {
  Index ranks_per_node = 8;
  Zero3Options options;  // without dtypes and policy
  std::string policy = "strict";
  std::int64_t live_budget = 0;
  OffloadArguments offload;
};

void add_zero3_options(CLI::App& command, Zero3Arguments& arguments);
/// `shard_group`: of --shard-group; 0: all ranks.
Result<Scheme> resolve_zero3(const Zero3Arguments& arguments, const GivenDtypes& given,
                             Index shard_group);

}  // namespace tessera::cli
