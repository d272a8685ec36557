// SPDX-License-Identifier: Apache-2.0
// The options of zero1 and zero2.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options/given_dtypes.h"
#include "tessera/scheme.h"

namespace tessera::cli {

inline constexpr const char* zero12_group = "ZeRO-1 and ZeRO-2: zero1, zero2 (sizes in elements)";

struct Zero12Arguments {
  Zero12Options options;  // without stage, reduce_bucket and dtypes
  bool all_reduce = false;
};

void add_zero12_options(CLI::App& command, Zero12Arguments& arguments);
Result<Scheme> resolve_zero12(const Zero12Arguments& arguments, std::int32_t stage,
                              Numel reduce_bucket, const GivenDtypes& given);

}  // namespace tessera::cli
