// SPDX-License-Identifier: Apache-2.0
// MiCS (arXiv 2205.00119, section 4.4; deepspeed mics.py): groups that hold the same partitions add
// their gradients up once a step, not once a micro-batch.
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

// All partitions of gradients lie in one buffer, so they are one collective.
Status Zero3Engine::complete_gradients() {
  Numel numel{};
  for (const OnDemandParameter& p : parameters_) {
    if (p.has_gradient) numel = std::max(numel, p.place + p.partition);
  }
  if (!replicas_.valid() || settled_ || numel == Numel{0}) return {};
  settled_ = true;
  const Cause why = cause("root", Reason::reduce_gradients);
  const View all = View::part(partitions_[static_cast<std::size_t>(Memory::device)], param_dtype(),
                              Numel{0}, numel);
  TESSERA_TRY(wait_stream(nccl_, reduce_, cause("root", Reason::order)));
  TESSERA_TRY(wait_stream(nccl_, compute_, cause("root", Reason::order)));
  TESSERA_ASSIGN(const EventId reduced,
                 submit(nccl_, why, AllReduce{replicas_, all, all, Reduction::sum}));
  return wait_event(compute_, reduced, cause("root", Reason::needed));
}

// What another backward pass would add is not reduced, what is there is.
Status Zero3Engine::expect_unsettled() const {
  if (!settled_) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("gradients of groups of {} ranks were added up already, for a norm or a "
                  "scale: step before the next backward pass",
                  ranks_));
}

}  // namespace tessera
