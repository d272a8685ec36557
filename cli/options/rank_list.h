// SPDX-License-Identifier: Apache-2.0
// Ranks as people write them: "0-63,128", "all", "none", "0-7,slowest".
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

enum class Ranges { as_far_as_there_are, whole };

/// Ascending, without repeats. A single rank has to be there; a range may end beyond the last rank
/// unless the list is of `Ranges::whole`. The word "slowest" stands for `slowest`, if there are
/// any. Fails: invalid_argument, naming `option`.
Result<std::vector<Rank>> parse_rank_list(const std::string& option, const std::string& text,
                                          Rank ranks, const std::vector<Rank>& slowest = {},
                                          Ranges ranges = Ranges::as_far_as_there_are);

}  // namespace tessera::cli
