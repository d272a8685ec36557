// SPDX-License-Identifier: Apache-2.0
// Which operations of two traces are the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/op_table.h"

namespace tessera::analysis {

/// Indices into the tables of both traces.
struct OpPair {
  std::int32_t a = 0, b = 0;
  bool same_reason = true;
};

struct OpPairs {
  std::vector<OpPair> pairs;
  std::vector<std::int32_t> only_a, only_b;
  bool collectives_only = false;
};

/// Whether one of the two was recorded by another tool: then its kernels are not what our engine
/// calls an operation, but collectives are, and those alone are paired.
bool pairs_only_collectives(const Trace& a, const Trace& b);

/// Of the steps [first, end), of collectives alone if `collectives_only`. Waits and marks, which
/// take no time, are left out. REQUIRES: both tables have the same looks.
OpPairs pair_ops(const OpTable& a, const OpTable& b, bool collectives_only, std::int32_t first,
                 std::int32_t end);

}  // namespace tessera::analysis
