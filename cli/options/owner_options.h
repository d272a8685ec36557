// SPDX-License-Identifier: Apache-2.0
// The options of sharded_data_parallel.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options/given_dtypes.h"
#include "tessera/scheme.h"

namespace tessera::cli {

inline constexpr const char* owner_group = "FairScale: sharded_data_parallel";

struct OwnerArguments {
  std::int64_t reduce_buffer_size = 1 << 23;
  bool broadcast_bf16 = false;
  bool broadcast_fp16 = false;
  std::int32_t process_group = 0;
};

void add_owner_options(CLI::App& command, OwnerArguments& arguments);
Result<Scheme> resolve_owner(const OwnerArguments& arguments, const GivenDtypes& given);

}  // namespace tessera::cli
