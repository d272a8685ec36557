// SPDX-License-Identifier: Apache-2.0
// Ranks as people write them: "0-63,128", "all", "none", "0-7,slowest".
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

/// Ascending. All have to be there, and none may be named twice. The word "slowest" stands for
/// `slowest`, if there are any, named or not. Fails: invalid_argument, naming `option`.
Result<std::vector<Rank>> parse_rank_list(const std::string& option, const std::string& text,
                                          Rank ranks, const std::vector<Rank>& slowest = {});

}  // namespace tessera::cli
