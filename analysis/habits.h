// SPDX-License-Identifier: Apache-2.0
// What a trace says of how its ranks work, on which it depends what a late span waited for.
#pragma once

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// How the ranks of a run work, as far as its trace says.
struct Habits {
  bool one_by_one = false;  // in one thread, one after the other, whatever their streams
  bool exact = false;       // times are those of a model: what is later by 1 ns was late
  bool annotates = false;   // its host streams say what others do, or wait for, and do nothing
};

Habits habits_of(const Trace& trace);

}  // namespace tessera::analysis
