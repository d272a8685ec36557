// SPDX-License-Identifier: Apache-2.0
// Which operations of two traces are the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// Indices into the ops of both traces.
struct OpPair {
  std::size_t a = 0, b = 0;
  bool same_reason = true;
};

struct OpPairs {
  std::vector<OpPair> pairs;
  std::vector<std::size_t> only_a, only_b;
};

/// Of the steps [first, end). Waits and marks, which take no time, are left out.
OpPairs pair_ops(const Trace& a, const Trace& b, std::int32_t first, std::int32_t end);

}  // namespace tessera::analysis
