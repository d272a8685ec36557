// SPDX-License-Identifier: Apache-2.0
// What the links of a simulated cluster carry at most, on the scale of bus bandwidth.
//
// The idea: a ring passes each byte of a collective over every link that it crosses, so the slowest
// of them limits all. That is said only where the trace leaves no doubt which links they are.
#pragma once

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

class LinkLimits {
 public:
  /// By the cluster's description in `run.sources`; without one nothing is known.
  explicit LinkLimits(const TraceRun& run);

  /// Bytes/s of a GPU: of links inside of a node, or of all of a node's links out of it. 0: not
  /// known, as of one of several groups on several nodes (traces do not say who belongs to it), of
  /// links that are shared in part, and where switches reduce (NVLS, CollNet).
  double of(const storage::OpRow& op, const storage::CommunicatorRow& group) const;

 private:
  std::int32_t ranks_ = 0, node_ = 1;
  double inside_ = 0, between_ = 0;  // bytes/s of a GPU, as the cluster's description has them
};

}  // namespace tessera::analysis
