// SPDX-License-Identifier: Apache-2.0
// A collective while it runs: transport requests and the arithmetic between them.
#pragma once

#include <memory>

#include "engine/backends/host/running_task.h"
#include "engine/backends/host/transport.h"
#include "tessera/op.h"

namespace tessera {

class CollectiveTask : public RunningTask {};

/// The arguments of one rank for a collective.
struct CollectiveCall {
  CommunicatorId communicator;
  DType dtype = DType::float32;
  Index members = 1;
  Index index = 0;
  std::span<const std::byte> input;
  std::span<std::byte> output;
};

struct ReductionRule {
  Reduction reduction = Reduction::average;
  float factor = 1;
};

// Each starts a collective and returns without waiting for it.
Result<std::unique_ptr<CollectiveTask>> start_all_gather(Transport&, const CollectiveCall&);
Result<std::unique_ptr<CollectiveTask>> start_reduce_scatter(Transport&, const CollectiveCall&,
                                                             const ReductionRule&);
Result<std::unique_ptr<CollectiveTask>> start_all_reduce(Transport&, const CollectiveCall&,
                                                         const ReductionRule&);
Result<std::unique_ptr<CollectiveTask>> start_reduce(Transport&, const CollectiveCall&,
                                                     const ReductionRule&, Index root);
Result<std::unique_ptr<CollectiveTask>> start_all_to_all(Transport&, const CollectiveCall&);
/// Reads `output` on the root and writes it on the others.
Result<std::unique_ptr<CollectiveTask>> start_broadcast(Transport&, const CollectiveCall&,
                                                        Index root);

}  // namespace tessera
