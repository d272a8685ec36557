// SPDX-License-Identifier: Apache-2.0
// Groups of ranks that train a model each, as options of schemes name them.
#pragma once

#include <optional>

#include "tessera/rank_set.h"
#include "tessera/status.h"

namespace tessera {

/// `groups`, or else groups of `size` consecutive ranks, 0: one of all. Fails: invalid_argument, if
/// they name ranks that are not in `world`, are not equally large, or `size` is given beside them.
Result<RankGroups> process_groups(const RankSet& world, Index size,
                                  const std::optional<RankGroups>& groups);

/// The first rank of each group.
RankSet first_members(const RankGroups& groups);

}  // namespace tessera
