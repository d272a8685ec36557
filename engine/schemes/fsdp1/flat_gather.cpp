// SPDX-License-Identifier: Apache-2.0
// Gathering and freeing flat parameters (torch _runtime_utils._unshard, _reshard, the prefetches;
// _limiter_utils._FreeEventQueue).
#include <fmt/format.h>

#include "engine/schemes/fsdp1/flat_engine.h"
#include "engine/schemes/fsdp1/marks.h"
#include "tessera/assert.h"

namespace tessera {

// Even a unit that is there already takes its turn at the limiter, as in PyTorch.
Status FlatEngine::unshard(FlatUnit& unit, Reason reason) {
  if (!unit.shard.value.valid()) return {};
  const bool there = sharded() ? unit.unsharded.valid() : !staged(unit) || unit.staged.valid();
  if (there) return limit();
  // torch's order: the cast is queued before the limiter may hold the host back, so that it is over
  // when the gather may begin.
  if (staged(unit)) {
    TESSERA_TRY(stage(unit, reason));
    TESSERA_TRY(wait_stream(unshard_stream_, pre_unshard_, cause(unit.name, Reason::order)));
  }
  TESSERA_TRY(limit());
  if (!sharded()) return {};
  TESSERA_ASSIGN(unit.unsharded, allocate(fmt::format("{}.unsharded", unit.name),
                                          bytes_of(unit.layout.padded(), unit.param_dtype),
                                          MemoryClass::unsharded_parameters, unshard_stream_,
                                          cause(unit.name, reason)));
  const View own = View::whole(staged(unit) ? unit.staged : unit.shard.value, unit.param_dtype,
                               unit.layout.shard);
  const View full = View::whole(unit.unsharded, unit.param_dtype, unit.layout.padded());
  TESSERA_ASSIGN(const EventId gathered, submit(unshard_stream_, cause(unit.name, reason),
                                                AllGather{shard_group_, own, full}));
  return unit.staged.valid() ? release(unit.staged, gathered) : Status{};
}

Status FlatEngine::stage(FlatUnit& unit, Reason reason) {
  TESSERA_ASSERT(!unit.staged.valid(), "the cast shard goes when it was gathered");
  const Cause why = cause(unit.name, options_.offload_params ? Reason::offload : reason);
  TESSERA_ASSIGN(unit.staged, allocate(fmt::format("{}.mp_shard", unit.name),
                                       bytes_of(unit.layout.shard, unit.param_dtype),
                                       MemoryClass::unsharded_parameters, pre_unshard_, why));
  Copy copy{
      .pieces = {{.from = View::whole(unit.shard.value, options_.original_dtype, unit.layout.shard),
                  .to = View::whole(unit.staged, unit.param_dtype, unit.layout.shard)}}};
  if (options_.offload_params) copy.route = CopyRoute::to_device;
  return submit(pre_unshard_, why, std::move(copy)).status();
}

Status FlatEngine::limit() {
  constexpr std::size_t gathers_in_flight = 2;
  if (!options_.limit_all_gathers || frees_.size() < gathers_in_flight) return {};
  // The host, not a stream: what is issued later takes its memory when it is issued.
  const EventId freed = frees_.front();
  frees_.pop_front();
  return runtime_.wait(freed);
}

Status FlatEngine::reshard(FlatUnit& unit, bool free) {
  unit.prefetched = false;
  BufferId& flat = sharded() ? unit.unsharded : unit.staged;
  if (!free || !flat.valid()) return {};
  TESSERA_TRY(release(flat, last_compute()));
  return after_free(unit.name);
}

Status FlatEngine::after_free(std::string_view unit) {
  if (!options_.limit_all_gathers || !sharded()) return {};
  TESSERA_ASSIGN(const EventId freed,
                 mark(cause(unit, Reason::limit), marks::storage_freed, compute_));
  frees_.push_back(freed);
  return {};
}

Status FlatEngine::prefetch(FlatUnit& unit, Reason reason) {
  TESSERA_TRY(unshard(unit, reason));
  unit.prefetched = true;
  return {};
}

// Backward runs in the reverse order of forward.
Status FlatEngine::prefetch_backward(const FlatUnit& unit) {
  if (unit.backward_place == 0) return {};
  TESSERA_ASSERT(unit.backward_place <= post_forward_order_.size(), "a place in this forward");
  FlatUnit& next = units_[post_forward_order_[unit.backward_place - 1]];
  if (!next.needs_pre_backward || next.prefetched) return {};
  return prefetch(next, Reason::backward_prefetch);
}

Status FlatEngine::prefetch_forward(const FlatUnit& unit) {
  const auto self = static_cast<std::size_t>(&unit - units_.data());
  if (!options_.forward_prefetch || !initialised_) return {};
  // PyTorch 1.13 prefetches from the root alone.
  if (options_.torch_1_13 && self != 0) return {};
  for (std::size_t k = 0; k + 1 < pre_forward_order_.size(); ++k) {
    if (pre_forward_order_[k] != self) continue;
    FlatUnit& next = units_[pre_forward_order_[k + 1]];
    if (!next.needs_pre_forward || next.prefetched) return {};
    return prefetch(next, Reason::forward_prefetch);
  }
  return {};
}

}  // namespace tessera
