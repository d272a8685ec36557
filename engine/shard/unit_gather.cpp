// SPDX-License-Identifier: Apache-2.0
// Gathering and freeing a unit's parameters (torch FSDPParamGroup.unshard, wait_for_unshard,
// reshard; _fsdp_collectives.foreach_all_gather).
#include <fmt/format.h>

#include "engine/shard/fully_shard_engine.h"

namespace tessera {

Status FullyShardEngine::allocate_shards(Unit& unit) {
  for (UnitParameter& p : unit.parameters) {
    TESSERA_ASSIGN(
        p.held.value,
        allocate(p.held.name + ".shard", bytes_of(p.layout.shard, options_.sharded_dtype),
                 MemoryClass::sharded_parameters, compute_, cause(unit.name, Reason::none)));
  }
  return {};
}

Status FullyShardEngine::unshard(Unit& unit, Reason reason) {
  if (unit.unsharded || unit.gather_buffer.valid() || unit.parameters.empty()) return {};
  TESSERA_ASSIGN(unit.gathered, copy_in(unit, reason));
  if (group_size_ == 1) return {};  // the copy-in already made the full buffer
  TESSERA_TRY(wait_stream(all_gather_, copy_in_, cause(unit.name, Reason::order)));
  const View own =
      View::shard(unit.gather_buffer, options_.param_dtype, unit.layout.shard, group_size_);
  const View full =
      View::whole(unit.gather_buffer, options_.param_dtype, unit.layout.shard * group_size_);
  TESSERA_ASSIGN(unit.gathered,
                 submit(all_gather_, cause(unit.name, reason), AllGather{world_, own, full}));
  return {};
}

Result<EventId> FullyShardEngine::copy_in(Unit& unit, Reason reason) {
  TESSERA_ASSIGN(unit.gather_buffer,
                 allocate(fmt::format("{}.ag_out", unit.name),
                          bytes_of(unit.layout.shard * group_size_, options_.param_dtype),
                          MemoryClass::all_gather_buffers, copy_in_, cause(unit.name, reason)));
  Copy copy{.index_in = world_};
  for (const UnitParameter& p : unit.parameters) {
    View slice =
        View::shard(unit.gather_buffer, options_.param_dtype, unit.layout.shard, group_size_);
    slice.first = p.layout.offset;
    slice.numel = p.layout.shard;
    copy.pieces.push_back(
        {.from = View::whole(p.held.value, options_.sharded_dtype, p.layout.shard), .to = slice});
  }
  return submit(copy_in_, cause(unit.name, Reason::copy_in), std::move(copy));
}

Status FullyShardEngine::free_gathered(Pending& gathered, const Cause& why) {
  // The next copy-in and all_gather may get the same bytes: they must follow the copy-out.
  TESSERA_TRY(wait_event(copy_in_, gathered.event, why));
  TESSERA_TRY(wait_event(all_gather_, gathered.event, why));
  return release(gathered.buffer, gathered.event);
}

Status FullyShardEngine::wait_for_unshard(Unit& unit) {
  if (!unit.gather_buffer.valid()) return {};
  const Cause freeing = cause(unit.name, Reason::free_memory);
  if (stage_ == Stage::forward && last_gathered_) {
    TESSERA_TRY(free_gathered(*last_gathered_, freeing));
    last_gathered_.reset();
  }
  TESSERA_TRY(wait_event(compute_, unit.gathered, cause(unit.name, Reason::needed)));
  TESSERA_TRY(copy_out(unit));
  TESSERA_ASSIGN(const EventId copied_out,
                 mark(cause(unit.name, Reason::copy_out), Mark::Kind::unsharded, compute_));
  unit.unsharded = true;
  Pending gathered{std::exchange(unit.gather_buffer, BufferId{}), copied_out};
  if (stage_ == Stage::forward) {
    // Freed at the next unit, so that its copy-in and all_gather overlap this copy-out.
    last_gathered_ = gathered;
    return {};
  }
  return free_gathered(gathered, freeing);
}

Status FullyShardEngine::copy_out(Unit& unit) {
  const Cause why = cause(unit.name, Reason::copy_out);
  Copy copy;
  for (UnitParameter& p : unit.parameters) {
    const Numel padded = p.layout.shard * group_size_;
    TESSERA_ASSIGN(p.unsharded, allocate(fmt::format("{}.{}.unsharded", unit.name, p.name),
                                         bytes_of(padded, options_.param_dtype),
                                         MemoryClass::unsharded_parameters, compute_, why));
    View from =
        View::part(unit.gather_buffer, options_.param_dtype, p.layout.offset, p.layout.shard);
    from.end = unit.layout.shard * group_size_;
    View to = View::part(p.unsharded, options_.param_dtype, Numel{0}, p.layout.shard);
    to.end = padded;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = group_size_,
                           .from_pitch = unit.layout.shard,
                           .to_pitch = p.layout.shard});
  }
  return submit(compute_, why, std::move(copy)).status();
}

Status FullyShardEngine::reshard(Unit& unit) {
  if (!unit.unsharded) return {};
  for (UnitParameter& p : unit.parameters) TESSERA_TRY(release(p.unsharded, last_compute_));
  unit.unsharded = false;
  return mark(cause(unit.name, Reason::free_memory), Mark::Kind::sharded, compute_).status();
}

// Backward runs in the reverse order of forward: gathers the unit that ran before.
Status FullyShardEngine::prefetch_before(std::size_t post_forward_index) {
  if (post_forward_index == 0) return {};
  Unit& previous = units_[forward_order_[post_forward_index - 1]];
  return flow_.out_of(previous.module) ? unshard(previous, Reason::backward_prefetch) : Status{};
}

}  // namespace tessera
