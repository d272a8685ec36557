// SPDX-License-Identifier: Apache-2.0
// Which collectives of several ranks are one.
//
// The idea: members of a group call collectives in one order. Where the source numbers them, the
// number says it; else the step and the place among the like ones of that step; else the shift of
// one rank's list against the other's that makes most kinds and sizes agree, and whose ends are
// then at the most equal distance.
#pragma once

#include <vector>

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

struct MatchedCollective {
  std::int32_t group = -1;
  std::int32_t members = 0;  // ranks that have it in their files
};

struct CollectiveMatches {
  // By rank (in order of ImportedRun::ranks()), then index into its collectives: an index into
  // `matched`; -1: no span refers to it.
  std::vector<std::vector<std::int32_t>> of;
  std::vector<std::vector<std::int64_t>> span_of;  // the same: an index into the rank's spans
  std::vector<MatchedCollective> matched;
};

CollectiveMatches match_collectives(const ImportedRun& run);

/// Nobody leaves one of these before everybody has come.
constexpr bool ends_together(OpKind kind) {
  return is_collective(kind) && kind != OpKind::reduce && kind != OpKind::broadcast;
}

}  // namespace tessera::exchange
