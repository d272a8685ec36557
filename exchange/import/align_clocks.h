// SPDX-License-Identifier: Apache-2.0
// One clock for all ranks, by what collectives prove.
//
// The idea: members of an all_gather, a reduce_scatter or an all_reduce end together, as nobody
// has everything before the last has come. So the usual distance between two ranks' ends is the
// distance of their clocks. On devices ends are microseconds apart; where hosts notice the end
// when they next look, a clock that ranks share is left as it is unless it contradicts what they
// did: somebody left before somebody else came.
#pragma once

#include "exchange/import/match_collectives.h"

namespace tessera::exchange {

/// Sets ImportedRank::offset of all; what cannot be aligned is named in a warning.
void align_clocks(ImportedRun& run, const CollectiveMatches& matches);

}  // namespace tessera::exchange
