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
  bool collectives_only = false;  // see pair_ops of traces
};

/// Of the steps [first, end) of `a` and `b`, of collectives alone if `collectives_only`.
OpPairs pair_ops(const std::vector<storage::OpRow>& a, const std::vector<storage::OpRow>& b,
                 bool collectives_only, std::int32_t first, std::int32_t end);

/// Of the steps [first, end). Waits and marks, which take no time, are left out. Where one of the
/// two was recorded by another tool, its kernels are not what our engine calls an operation, but
/// collectives are: then those alone are paired.
OpPairs pair_ops(const Trace& a, const Trace& b, std::int32_t first, std::int32_t end);
bool pairs_only_collectives(const Trace& a, const Trace& b);

}  // namespace tessera::analysis
