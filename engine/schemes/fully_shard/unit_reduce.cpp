// SPDX-License-Identifier: Apache-2.0
// Reducing a unit's gradients to shards (torch FSDPParamGroup.post_backward,
// _fsdp_collectives.foreach_reduce).
#include <fmt/format.h>

#include <algorithm>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/fully_shard/fully_shard_engine.h"
#include "tessera/assert.h"

namespace tessera {
Result<View> FullyShardEngine::gradient_view(ParameterId id) {
  const Unit& unit = unit_with(id);
  UnitParameter& p = parameter(id);
  if (!p.layout.gradient) return trained_later(model_.parameter(id).name);
  if (unit.finished_backward) return late_gradient(model_.parameter(id).name, unit.name);
  if (!p.gradient.valid()) {
    TESSERA_ASSIGN(
        p.gradient,
        allocate(p.shard.name + ".grad", bytes_of(p.layout.numel, unit.param_dtype),
                 MemoryClass::unsharded_gradients, compute_, cause(unit.name, Reason::none)));
  }
  return View::whole(p.gradient, unit.param_dtype, p.layout.numel);
}

Status FullyShardEngine::reduce_gradients(Unit& unit) {
  unit.finished_backward = true;
  // The parameters go first: their memory is what the reduction's buffers may take.
  if (reshard_after_backward_) TESSERA_TRY(reshard(unit));
  bool has_gradients = false;
  for (const UnitParameter& p : unit.parameters) {
    TESSERA_ASSERT(p.layout.gradient || !p.gradient.valid(),
                   "a gradient has a place in the buffers");
    has_gradients |= p.gradient.valid() || p.accumulated.valid();
  }
  if (!has_gradients) return {};
  // Without sync unsharded gradients stay, in reduce_dtype: a sum in a narrow dtype loses bits.
  if (!unit.reduces) return accumulate_gradients(unit);
  for (const UnitParameter& p : unit.parameters) {
    if (p.accumulated.valid()) {
      TESSERA_TRY(accumulate_gradients(unit));
      break;
    }
  }
  // Inputs of older reduce_scatters bound the memory that reductions may run behind with.
  const auto alive = static_cast<std::size_t>(options_.reduce_scatter_max_input_buffers - 1);
  TESSERA_TRY(free_packed(tree_of(unit), alive, unit.name));
  const Numel padded = unit.layout.trained * unit.mesh.size;
  TESSERA_ASSIGN(
      const BufferId packed,
      allocate(fmt::format("{}.rs_in", unit.name), bytes_of(padded, unit.reduce_dtype),
               MemoryClass::reduce_buffers, compute_, cause(unit.name, Reason::copy_in)));
  TESSERA_TRY(pack_gradients(unit, packed));
  const Cause why = cause(unit.name, Reason::reduce_gradients);
  const StreamId stream = tree_of(unit).reduce_scatter;
  TESSERA_TRY(wait_stream(stream, compute_, cause(unit.name, Reason::order)));
  TESSERA_ASSIGN(const BufferId shard, allocate(fmt::format("{}.rs_out", unit.name),
                                                bytes_of(unit.layout.trained, unit.reduce_dtype),
                                                MemoryClass::sharded_gradients, stream, why));
  TESSERA_TRY(scatter(unit, packed, shard));
  if (unit.mesh.replicas > 1) return all_reduce(unit, shard);
  return keep_sharded_gradient(unit, shard);
}

// The oldest inputs of reduce_scatters go, until `left` are alive.
Status FullyShardEngine::free_packed(UnitTree& tree, std::size_t left, std::string_view unit) {
  while (tree.packed.size() > left) {
    PendingBuffer& oldest = tree.packed.front();
    TESSERA_TRY(wait_event(compute_, oldest.event, cause(unit, Reason::free_memory)));
    TESSERA_TRY(release(oldest.buffer, oldest.event));
    tree.packed.pop_front();
  }
  return {};
}

// Gradients that earlier micro-batches kept to themselves are added first.
Status FullyShardEngine::all_reduce(Unit& unit, BufferId shard) {
  const UnitTree& tree = tree_of(unit);
  const View view = View::whole(shard, unit.reduce_dtype, unit.layout.trained);
  if (unit.partial.valid()) {
    const View partial = View::whole(unit.partial, unit.reduce_dtype, unit.layout.trained);
    TESSERA_ASSIGN(
        const EventId added,
        submit(tree.reduce_scatter, cause(unit.name, Reason::accumulate), add(partial, view)));
    TESSERA_TRY(release(unit.partial, added));
  }
  if (!requires_all_reduce_) {
    unit.partial = shard;
    return {};
  }
  TESSERA_TRY(wait_stream(tree.all_reduce, tree.reduce_scatter, cause(unit.name, Reason::order)));
  // With a factor of its own the reduce_scatter has divided for all ranks, replicas included.
  AllReduce what{unit.mesh.replicate, view, view, Reduction::average};
  if (options_.gradient_divide_factor) what.reduction = Reduction::sum;
  TESSERA_TRY(submit(tree.all_reduce, cause(unit.name, Reason::reduce_gradients), what).status());
  return keep_sharded_gradient(unit, shard);
}

// One buffer, rank i's part holding the i-th slice of every gradient (torch chunk_cat). Trained
// parameters without a gradient contribute zeros, so that all ranks reduce the same shape; frozen
// ones are left out.
Status FullyShardEngine::pack_gradients(Unit& unit, BufferId into) {
  Copy copy;
  copy.pieces.reserve(unit.parameters.size());
  const Numel padded = unit.layout.trained * unit.mesh.size;
  for (const UnitParameter& p : unit.parameters) {
    if (!p.layout.gradient) continue;
    const bool summed = p.accumulated.valid();
    View from = View::part(summed ? p.accumulated : p.gradient,
                           summed ? unit.reduce_dtype : unit.param_dtype, Numel{0}, p.layout.shard);
    from.end = from.buffer.valid() ? p.layout.numel : Numel{0};
    View to = View::part(into, unit.reduce_dtype, *p.layout.gradient, p.layout.shard);
    to.end = padded;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = unit.mesh.size,
                           .from_pitch = p.layout.shard,
                           .to_pitch = unit.layout.trained});
  }
  TESSERA_ASSIGN(const EventId packed,
                 submit(compute_, cause(unit.name, Reason::copy_in), std::move(copy)));
  for (UnitParameter& p : unit.parameters) {
    if (p.gradient.valid()) TESSERA_TRY(release(p.gradient, packed));
    if (p.accumulated.valid()) TESSERA_TRY(release(p.accumulated, packed));
  }
  return {};
}

Status FullyShardEngine::scatter(Unit& unit, BufferId packed, BufferId shard) {
  const Cause why = cause(unit.name, Reason::reduce_gradients);
  const View input = View::whole(packed, unit.reduce_dtype, unit.layout.trained * unit.mesh.size);
  const View output = View::whole(shard, unit.reduce_dtype, unit.layout.trained);
  ReduceScatter reduce{unit.mesh.shard, input, output, Reduction::average};
  if (options_.gradient_divide_factor) {
    reduce.reduction = Reduction::sum;
    reduce.factor = 1 / *options_.gradient_divide_factor;
  }
  decltype(Op::what) what = reduce;
  if (unit.mesh.size == 1) {
    // Nothing to reduce here, but a factor counts for replicas, too.
    what = Copy{.pieces = {{.from = input, .to = output}}};
    if (reduce.factor != 1) what = multiply(input, output, reduce.factor);
  }
  TESSERA_ASSIGN(const EventId reduced, submit(tree_of(unit).reduce_scatter, why, std::move(what)));
  // Its memory is not given back yet: the compute stream has to wait for the reduction before, and
  // that wait is put off to where the memory is wanted.
  tree_of(unit).packed.push_back({packed, reduced});
  return {};
}

// The reduce_scatter's output becomes the sharded gradient, or is added to that of earlier
// micro-batches, in the shards' dtype.
Status FullyShardEngine::keep_sharded_gradient(Unit& unit, BufferId scattered) {
  const bool host = unit.offload;
  const bool replicated = unit.mesh.replicas > 1;
  UnitTree& tree = tree_of(unit);
  const StreamId stream = replicated ? tree.all_reduce : tree.reduce_scatter;
  const View fresh = View::whole(scattered, unit.reduce_dtype, unit.layout.trained);
  const bool first = !unit.sharded_gradient.valid();
  // The common case copies nothing: what was scattered is what the optimizer reads.
  if (first && unit.reduce_dtype == options_.sharded_dtype && !host) {
    unit.sharded_gradient = scattered;
  } else {
    const Cause why = cause(unit.name, host ? Reason::offload : Reason::accumulate);
    if (first) {
      TESSERA_ASSIGN(unit.sharded_gradient,
                     allocate(fmt::format("{}.sharded_grad", unit.name),
                              bytes_of(unit.layout.trained, options_.sharded_dtype),
                              host ? MemoryClass::pinned_host : MemoryClass::sharded_gradients,
                              stream, why, host ? Memory::pinned_host : Memory::device));
    }
    const View kept =
        View::whole(unit.sharded_gradient, options_.sharded_dtype, unit.layout.trained);
    decltype(Op::what) what = add(fresh, kept);
    if (first) {
      what = Copy{.pieces = {{.from = fresh, .to = kept}},
                  .route = host ? CopyRoute::to_host : CopyRoute::on_device};
    }
    TESSERA_ASSIGN(const EventId done, submit(stream, why, std::move(what)));
    TESSERA_TRY(release(scattered, done));
  }
  EventId& last = replicated ? tree.last_all_reduced : tree.last_reduced;
  TESSERA_ASSIGN(
      last, mark(cause(unit.name, Reason::reduce_gradients), marks::gradients_sharded, stream));
  return {};
}

Status FullyShardEngine::accumulate_gradients(Unit& unit) {
  const Cause why = cause(unit.name, Reason::accumulate);
  for (UnitParameter& p : unit.parameters) {
    if (!p.gradient.valid()) continue;
    if (!p.accumulated.valid() && unit.reduce_dtype == unit.param_dtype) {
      p.accumulated = std::exchange(p.gradient, BufferId{});
      continue;
    }
    const bool first = !p.accumulated.valid();
    if (first) {
      TESSERA_ASSIGN(p.accumulated, allocate(p.shard.name + ".accumulated_grad",
                                             bytes_of(p.layout.numel, unit.reduce_dtype),
                                             MemoryClass::unsharded_gradients, compute_, why));
    }
    const View fresh = View::whole(p.gradient, unit.param_dtype, p.layout.numel);
    const View sum = View::whole(p.accumulated, unit.reduce_dtype, p.layout.numel);
    decltype(Op::what) what = add(fresh, sum);
    if (first) what = Copy{.pieces = {{.from = fresh, .to = sum}}};
    TESSERA_ASSIGN(const EventId done, submit(compute_, why, std::move(what)));
    TESSERA_TRY(release(p.gradient, done));
  }
  return {};
}

// The compute stream follows the last reductions, so that the optimizer sees all gradients.
Status FullyShardEngine::finish_reduce(UnitTree& tree) {
  if (tree.packed.empty()) return {};
  const bool offloads =
      std::any_of(units_.begin(), units_.end(), [](const Unit& unit) { return unit.offload; });
  for (const EventId last : {tree.last_reduced, tree.last_all_reduced}) {
    if (!last.valid()) continue;
    TESSERA_TRY(wait_event(compute_, last, cause(root_name(tree), Reason::needed)));
    // The CPU steps what was copied to it, and no stream orders the CPU: the host waits.
    if (offloads) TESSERA_TRY(runtime_.wait(last));
  }
  return free_packed(tree, 0, root_name(tree));
}

}  // namespace tessera
