// SPDX-License-Identifier: Apache-2.0
// Collectives that two runs do not have alike: another number of them, or other sizes.
//
// The idea: times differ by chance, but what is issued does not. Where it differs it is a change
// that somebody made, and what collectives expose follows from it.
#pragma once

#include <string>

#include "analysis/op_pairs.h"

namespace tessera::analysis {

/// "all_reduce: 4 a step instead of 13, 474.7 MiB a step instead of 949.4"; "" if all are alike. Of
/// so many steps' work.
std::string changed_work(const WorkOfKinds& a, const WorkOfKinds& b, std::int32_t steps);

/// Whether both runs compute the same operations.
bool same_computations(const OpTable& a, const OpTable& b, const OpPairs& pairs);

}  // namespace tessera::analysis
