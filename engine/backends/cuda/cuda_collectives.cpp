// SPDX-License-Identifier: Apache-2.0
// Prepares NCCL for a collective: the order of launches, and registered memory.
#include <fmt/format.h>

#include "engine/backends/cuda/calls.h"
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/runtime/access.h"
#include "engine/runtime/op_checks.h"

namespace tessera {

Status CudaBackend::prepare_collective(const Op& op, Lane& lane) {
  if (windows_.is_open()) TESSERA_TRY(cover(op));
  if (nccl_version_ >= nccl_in_launch_order) return {};
  // Two collectives that run at the same time can deadlock: each may occupy processors for which
  // the other waits on another GPU. From 2.26 on NCCL launches them in the order of the calls;
  // older versions need an event.
  Lane* const before = std::exchange(last_collective_, &lane);
  return before == nullptr || before == &lane ? Status{} : lane.wait(*before, before->youngest());
}

// In symmetric windows NCCL assumes equal offsets on all ranks: a buffer that lies elsewhere on one
// of them would be read or written in the wrong place.
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
  const auto all = static_cast<std::size_t>(device_.mapped().value);
  return windows_.cover(communicator_of(op), {device_.at(Bytes{0}), all});
}

}  // namespace tessera
