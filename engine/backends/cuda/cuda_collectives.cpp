// SPDX-License-Identifier: Apache-2.0
// What NCCL must know before a collective of the backend: order, and memory.
#include <fmt/format.h>

#include "engine/backends/cuda/calls.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/runtime/access.h"
#include "engine/runtime/op_checks.h"

namespace tessera {

Status CudaBackend::prepare_collective(const Op& op, Lane& lane) {
  if (windows_.is_open()) TESSERA_TRY(cover(op));
  if (nccl_version_ >= nccl_in_launch_order) return {};
  // Two collectives that run at once may wait for each other's processors on another GPU. From 2.26
  // on NCCL starts them in the order of the calls; before, an event must say so.
  Lane* const before = std::exchange(last_collective_, &lane);
  return before == nullptr || before == &lane ? Status{} : lane.wait(*before, before->youngest());
}

// A symmetric window is one memory on all ranks: what lies elsewhere on one of them would be taken
// from, or put to, the wrong place.
Status CudaBackend::cover(const Op& op) {
  for (const Access& access : accesses_of(op)) {
    const Bytes own = places_.at(access.buffer).offset;
    for (Rank other = 0; other < peers_->ranks(); ++other) {
      if (!op.where.contains(other)) continue;
      const Bytes there = offset_of(access.buffer, other);
      if (there == own) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{} has {} at offset {} on rank {} and at {} on rank {}: "
                                "CudaOptions::windows needs equal offsets, switch it off",
                                describe(op), buffer(access.buffer).name, own.value, rank_,
                                there.value, other));
    }
  }
  return windows_.cover(communicator_of(op), device_, growth_.end());
}

}  // namespace tessera
