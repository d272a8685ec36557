// SPDX-License-Identifier: Apache-2.0
// Files of one rank each often say which only by their names.
#pragma once

#include <string_view>

#include "tessera/types.h"

namespace tessera::exchange {

/// The number behind the word "rank" in a file's name ("nccl_trace_rank_3", "rank12.pickle", or
/// with `any_number` the last number before the extension ("dump_7.json"); -1: there is none.
Rank rank_of_file(std::string_view name, bool any_number);

}  // namespace tessera::exchange
