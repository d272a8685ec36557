// SPDX-License-Identifier: Apache-2.0
// A collective operation as calls of NCCL.
#pragma once

#include "engine/backends/cuda/communicators.h"
#include "tessera/op.h"

namespace tessera {

/// The arguments of one rank for a collective.
struct NcclCall {
  CommunicatorId communicator;
  Index members = 1;
  DType dtype = DType::float32;
  Numel numel{};  // elements of the smaller of input and output
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  CudaStream stream = nullptr;
};

class Collectives {
 public:
  Collectives(const NcclApi& api, Communicators& communicators)
      : api_(api), communicators_(communicators) {}

  // Each enqueues a collective on the stream and returns without waiting for it.
  Status all_gather(const NcclCall& call);
  Status reduce_scatter(const NcclCall& call, Reduction reduction, float factor);
  Status all_reduce(const NcclCall& call, Reduction reduction, float factor);
  Status reduce(const NcclCall& call, Reduction reduction, Index root);
  Status broadcast(const NcclCall& call, Index root);
  Status all_to_all(const NcclCall& call);

 private:
  /// NCCL's operator for a reduction; one that was created for the call is destroyed at its end.
  struct Operator {
    NcclOp op = NcclOp::sum;
    bool own = false;
  };
  Result<Operator> make(const NcclCall& call, Reduction reduction, float factor);
  Status finish(const NcclCall& call, int code, const char* name);
  Status finish(const NcclCall& call, const Operator& op, int code, const char* name);

  const NcclApi& api_;
  Communicators& communicators_;
};

}  // namespace tessera
