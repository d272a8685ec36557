// SPDX-License-Identifier: Apache-2.0
// Gathering and freeing a unit's parameters (torch FSDPParamGroup.unshard, wait_for_unshard,
// reshard; _fsdp_collectives.foreach_all_gather).
#include <fmt/format.h>

#include "engine/schemes/fully_shard/fully_shard_engine.h"
#include "tessera/assert.h"

namespace tessera {

Status FullyShardEngine::allocate_shards(Unit& unit) {
  const bool host = unit.offload;
  for (UnitParameter& p : unit.parameters) {
    TESSERA_ASSIGN(
        p.shard.value,
        allocate(p.shard.name + ".shard", bytes_of(p.layout.shard, options_.sharded_dtype),
                 host ? MemoryClass::pinned_host : MemoryClass::sharded_parameters, compute_,
                 cause(unit.name, Reason::none), host ? Memory::pinned_host : Memory::device));
  }
  return {};
}

FullyShardEngine::Gathering FullyShardEngine::gathering(const Unit& unit) const {
  if (!unit.post_forward_sharded) return {unit.mesh.shard, unit.mesh.size, 1};
  TESSERA_ASSERT(unit.reshards_to_group && unit.reshard_group > 0,
                 "a smaller group has the slices");
  return {unit.post_forward_group, unit.reshard_group, unit.mesh.size / unit.reshard_group};
}

Status FullyShardEngine::unshard(Unit& unit, Reason reason) {
  // Called again for a unit whose gather is under way or done: prefetches and hooks overlap.
  if (unit.unsharded || unit.gather_buffer.valid() || unit.parameters.empty()) return {};
  TESSERA_ASSIGN(unit.gathered, copy_in(unit, reason));
  if (unit.mesh.size == 1) return {};  // the copy-in already made the full buffer
  const UnitTree& tree = tree_of(unit);
  TESSERA_TRY(wait_stream(tree.all_gather, tree.copy_in, cause(unit.name, Reason::order)));
  const Gathering g = gathering(unit);
  const View own =
      View::shard(unit.gather_buffer, unit.param_dtype, unit.layout.shard * g.scale, g.size);
  const View full =
      View::whole(unit.gather_buffer, unit.param_dtype, unit.layout.shard * unit.mesh.size);
  TESSERA_ASSIGN(unit.gathered,
                 submit(tree.all_gather, cause(unit.name, reason), AllGather{g.group, own, full}));
  return {};
}

Result<EventId> FullyShardEngine::copy_in(Unit& unit, Reason reason) {
  TESSERA_ASSERT(!unit.gather_buffer.valid() && !unit.unsharded, "a gather begins once");
  const StreamId stream = tree_of(unit).copy_in;
  TESSERA_ASSIGN(unit.gather_buffer,
                 allocate(fmt::format("{}.ag_out", unit.name),
                          bytes_of(unit.layout.shard * unit.mesh.size, unit.param_dtype),
                          MemoryClass::all_gather_buffers, stream, cause(unit.name, reason)));
  const Gathering g = gathering(unit);
  // After reshard_to_group the unit's own slice is larger, on the device, and cast already.
  const bool again = unit.post_forward_sharded;
  Copy copy{.index_in = g.group};
  if (unit.offload && !again) copy.route = CopyRoute::to_device;
  copy.pieces.reserve(unit.parameters.size());
  for (const UnitParameter& p : unit.parameters) {
    View slice =
        View::shard(unit.gather_buffer, unit.param_dtype, unit.layout.shard * g.scale, g.size);
    slice.first = p.layout.offset * g.scale;
    slice.numel = p.layout.shard * g.scale;
    const View from = again ? View::whole(p.post_forward, unit.param_dtype, slice.numel)
                            : View::whole(p.shard.value, options_.sharded_dtype, slice.numel);
    copy.pieces.push_back({.from = from, .to = slice});
  }
  if (!again) return submit(stream, cause(unit.name, Reason::copy_in), std::move(copy));
  TESSERA_TRY(wait_event(stream, unit.resharded, cause(unit.name, Reason::order)));
  TESSERA_ASSIGN(const EventId copied,
                 submit(stream, cause(unit.name, Reason::copy_in), std::move(copy)));
  for (UnitParameter& p : unit.parameters) TESSERA_TRY(release(p.post_forward, copied));
  return copied;
}

Status FullyShardEngine::free_gathered(UnitTree& tree, PendingBuffer& gathered, const Cause& why) {
  // The next copy-in and all_gather may get the same bytes: they must follow the copy-out.
  TESSERA_TRY(wait_event(tree.copy_in, gathered.event, why));
  TESSERA_TRY(wait_event(tree.all_gather, gathered.event, why));
  return release(gathered.buffer, gathered.event);
}

Status FullyShardEngine::wait_for_unshard(Unit& unit) {
  if (!unit.gather_buffer.valid()) return {};
  TESSERA_ASSERT(unit.gathered.valid() && !unit.unsharded, "a gather ends once");
  const Cause freeing = cause(unit.name, Reason::free_memory);
  UnitTree& tree = tree_of(unit);
  if (stage_ == Stage::forward && tree.last_gathered) {
    TESSERA_TRY(free_gathered(tree, *tree.last_gathered, freeing));
    tree.last_gathered.reset();
  }
  TESSERA_TRY(wait_event(compute_, unit.gathered, cause(unit.name, Reason::needed)));
  TESSERA_TRY(copy_out(unit));
  TESSERA_ASSIGN(const EventId copied_out,
                 mark(cause(unit.name, Reason::copy_out), marks::unsharded, compute_));
  unit.unsharded = true;
  PendingBuffer gathered{std::exchange(unit.gather_buffer, BufferId{}), copied_out};
  if (stage_ == Stage::forward) {
    // Freed at the next unit, so that its copy-in and all_gather overlap this copy-out.
    tree.last_gathered = gathered;
    return {};
  }
  return free_gathered(tree, gathered, freeing);
}

Status FullyShardEngine::finish_gathers() {
  for (Unit& unit : units_) TESSERA_TRY(wait_for_unshard(unit));
  return {};
}

// Values change: what is gathered, or on its way, has the old ones, and a unit that is there is not
// gathered again.
Status FullyShardEngine::before_write() {
  for (Unit& unit : units_) TESSERA_TRY(drop_gather(unit));
  for (Unit& unit : units_) TESSERA_TRY(reshard(unit));
  return {};
}

// A prefetch of a unit that backward had left already. The optimizer makes its values old, so they
// are freed; torch does so without the copy-out, which here shows that the collective was awaited.
Status FullyShardEngine::drop_gather(Unit& unit) {
  if (!unit.gather_buffer.valid()) return {};
  TESSERA_TRY(wait_for_unshard(unit));
  return reshard(unit);
}

Status FullyShardEngine::copy_out(Unit& unit) {
  const Cause why = cause(unit.name, Reason::copy_out);
  const Gathering g = gathering(unit);
  // The all_gather leaves rank after rank; parameters want their own rows together, rank by rank.
  Copy copy;
  copy.pieces.reserve(unit.parameters.size());
  for (UnitParameter& p : unit.parameters) {
    const Numel padded = p.layout.shard * unit.mesh.size;
    TESSERA_ASSERT(!p.unsharded.valid(), "an unsharded parameter is not copied out again");
    TESSERA_ASSIGN(p.unsharded,
                   allocate(p.shard.name + ".unsharded", bytes_of(padded, unit.param_dtype),
                            MemoryClass::unsharded_parameters, compute_, why));
    const Numel block = p.layout.shard * g.scale;
    View from = View::part(unit.gather_buffer, unit.param_dtype, p.layout.offset * g.scale, block);
    from.end = unit.layout.shard * unit.mesh.size;
    View to = View::part(p.unsharded, unit.param_dtype, Numel{0}, block);
    to.end = padded;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = g.size,
                           .from_pitch = unit.layout.shard * g.scale,
                           .to_pitch = block});
  }
  unit.post_forward_sharded = false;
  return submit(compute_, why, std::move(copy)).status();
}

Status FullyShardEngine::reshard(Unit& unit) {
  if (!unit.unsharded) return {};
  // Only the compute stream reads unsharded parameters, so its youngest op is their last reader.
  for (UnitParameter& p : unit.parameters) TESSERA_TRY(release(p.unsharded, last_compute()));
  unit.unsharded = false;
  return mark(cause(unit.name, Reason::free_memory), marks::sharded, compute_).status();
}

// Keeps the slice of the smaller group, which gathers it again in backward.
Status FullyShardEngine::reshard_to_group(Unit& unit) {
  if (!unit.unsharded || unit.parameters.empty()) return {};
  const Cause why = cause(unit.name, Reason::free_memory);
  unit.post_forward_sharded = true;
  const Gathering g = gathering(unit);
  Copy copy{.index_in = g.group};
  for (UnitParameter& p : unit.parameters) {
    const Numel slice = p.layout.shard * g.scale;
    TESSERA_ASSERT(!p.post_forward.valid(), "a gather has used the slice of an earlier forward");
    TESSERA_ASSIGN(p.post_forward,
                   allocate(p.shard.name + ".post_forward", bytes_of(slice, unit.param_dtype),
                            MemoryClass::sharded_parameters, compute_, why));
    copy.pieces.push_back({.from = View::shard(p.unsharded, unit.param_dtype, slice, g.size),
                           .to = View::whole(p.post_forward, unit.param_dtype, slice)});
  }
  TESSERA_ASSIGN(unit.resharded, submit(compute_, why, std::move(copy)));
  return reshard(unit);
}

// Backward runs in the reverse order of forward: gathers the unit that ran before.
Status FullyShardEngine::prefetch_before(const UnitTree& tree, std::size_t post_forward_index) {
  if (post_forward_index == 0) return {};
  TESSERA_ASSERT(post_forward_index < tree.forward_order.size(), "a place in this forward");
  Unit& previous = units_[tree.forward_order[post_forward_index - 1]];
  return flow_.out_of(previous.module) ? unshard(previous, Reason::backward_prefetch) : Status{};
}

}  // namespace tessera
