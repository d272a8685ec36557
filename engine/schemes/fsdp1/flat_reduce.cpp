// SPDX-License-Identifier: Apache-2.0
// Gradients of flat parameters (torch _runtime_utils._post_backward_hook, _reduce_grad).
#include <fmt/format.h>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/fsdp1/flat_engine.h"
#include "tessera/assert.h"

namespace tessera {

Result<View> FlatEngine::gradient_view(ParameterId id) {
  FlatUnit& unit = unit_with(id);
  if (!trained_[id.index()]) return trained_later(model_.parameter(id).name);
  if (unit.finished_backward) return late_gradient(model_.parameter(id).name, unit.name);
  if (!unit.gradient.valid()) {
    TESSERA_ASSIGN(
        unit.gradient,
        allocate(fmt::format("{}.grad", unit.name), bytes_of(unit.layout.total, unit.param_dtype),
                 MemoryClass::unsharded_gradients, compute_, cause(unit.name, Reason::none)));
    unit.written.assign(unit.layout.entries.size(), false);
  }
  unit.written[entry_of_parameter_[id.index()]] = true;
  return View::part(unit.gradient, unit.param_dtype, entry_of(id).begin, entry_of(id).numel);
}

Status FlatEngine::finish_unit(FlatUnit& unit) {
  TESSERA_ASSERT(!unit.finished_backward, "a unit is finished once in a backward pass");
  unit.finished_backward = true;
  TESSERA_TRY(reshard(unit, frees_in_backward(unit)));
  if (options_.backward_prefetch == BackwardPrefetch::post) TESSERA_TRY(prefetch_backward(unit));
  if (unit.gradient.valid()) {
    TESSERA_TRY(fill_gaps(unit));
    TESSERA_TRY(accumulate(unit));
  }
  return reduces_ && unit.accumulated.valid() ? reduce(unit) : Status{};
}

// A frozen unit hears of its end by a hook on its input, behind that of the unit which made it: so
// that unit gathers first. A cast of the input stands between the two.
Status FlatEngine::free_frozen() {
  for (; !left_.empty(); left_.pop_back()) TESSERA_TRY(finish_unit(units_[left_.back()]));
  return {};
}

// Alignment padding, frozen parameters, and those that this pass did not use.
Status FlatEngine::fill_gaps(FlatUnit& unit) {
  TESSERA_ASSERT(unit.written.size() == unit.layout.entries.size(),
                 "a flag per entry of the layout");
  Copy zeros;
  for (std::size_t e = 0; e < unit.written.size(); ++e) {
    if (unit.written[e]) continue;
    const auto& entry = unit.layout.entries[e];
    const View to = View::part(unit.gradient, unit.param_dtype, entry.begin, entry.numel);
    zeros.pieces.push_back({.from = {.dtype = unit.param_dtype, .numel = entry.numel}, .to = to});
  }
  if (zeros.pieces.empty()) return {};
  return submit(compute_, cause(unit.name, Reason::copy_in), std::move(zeros)).status();
}

Status FlatEngine::accumulate(FlatUnit& unit) {
  if (!unit.accumulated.valid()) {
    unit.accumulated = std::exchange(unit.gradient, BufferId{});
    return {};
  }
  TESSERA_ASSIGN(const EventId added,
                 submit(compute_, cause(unit.name, Reason::accumulate),
                        add(View::whole(unit.gradient, unit.param_dtype, unit.layout.total),
                            View::whole(unit.accumulated, unit.param_dtype, unit.layout.total))));
  return release(unit.gradient, added);
}

// The unsharded gradient itself, or a padded copy in reduce_dtype.
Result<View> FlatEngine::reducible(FlatUnit& unit) {
  const View gradient = View::whole(unit.accumulated, unit.param_dtype, unit.layout.total);
  if (unit.layout.padded() == unit.layout.total && unit.reduce_dtype == unit.param_dtype)
    return gradient;
  const Cause why = cause(unit.name, Reason::copy_in);
  TESSERA_ASSIGN(const BufferId padded,
                 allocate(fmt::format("{}.padded_grad", unit.name),
                          bytes_of(unit.layout.padded(), unit.reduce_dtype),
                          MemoryClass::reduce_buffers, post_backward_stream_, why));
  const View to = View::whole(padded, unit.reduce_dtype, unit.layout.padded());
  View from = gradient;
  from.numel = unit.layout.padded();  // cut at its end: the rest becomes zero
  TESSERA_TRY(
      submit(post_backward_stream_, why, Copy{.pieces = {{.from = from, .to = to}}}).status());
  return to;
}

Status FlatEngine::scale(const FlatUnit& unit, const View& view, float divisor, StreamId stream) {
  if (divisor == 1) return {};
  return submit(stream, cause(unit.name, Reason::divide), divide(view, divisor)).status();
}

// Compute goes on only when the reduction before is over, so that the gradients which wait for
// theirs do not grow with the model.
Status FlatEngine::bound_gradients() {
  if (options_.torch_order || !reduced_.valid()) return {};
  return wait_event(compute_, std::exchange(reduced_, EventId{}), cause("root", Reason::order));
}

Status FlatEngine::reduce(FlatUnit& unit) {
  TESSERA_ASSERT(unit.accumulated.valid(), "there is a gradient to reduce");
  const Cause why = cause(unit.name, Reason::reduce_gradients);
  const StreamId stream = post_backward_stream_;
  TESSERA_TRY(bound_gradients());
  TESSERA_TRY(wait_stream(stream, compute_, cause(unit.name, Reason::order)));
  // Half of the division before the sum, half after it: neither over- nor underflows in fp16.
  const DivideFactors factors = divide_factors(shard_size_ * replicas_);
  TESSERA_ASSIGN(const View input, reducible(unit));
  TESSERA_TRY(scale(unit, input, factors.predivide, stream));
  View shard = input;
  if (sharded()) {
    TESSERA_ASSIGN(const BufferId out, allocate(fmt::format("{}.shard_grad", unit.name),
                                                bytes_of(unit.layout.shard, unit.reduce_dtype),
                                                MemoryClass::sharded_gradients, stream, why));
    shard = View::whole(out, unit.reduce_dtype, unit.layout.shard);
    TESSERA_ASSIGN(const EventId scattered,
                   submit(stream, why, ReduceScatter{shard_group_, input, shard, Reduction::sum}));
    BufferId packed = input.buffer;
    if (packed != unit.accumulated) TESSERA_TRY(release(packed, scattered));
    TESSERA_TRY(release(unit.accumulated, scattered));
    reduced_ = scattered;
  }
  const StreamId last = sharded() ? all_reduce_ : stream;
  if (replicas_ > 1) {
    if (last != stream) TESSERA_TRY(wait_stream(last, stream, cause(unit.name, Reason::order)));
    TESSERA_TRY(
        submit(last, why, AllReduce{replica_group_, shard, shard, Reduction::sum}).status());
  }
  TESSERA_TRY(scale(unit, shard, factors.postdivide, last));
  return keep(unit, shard, last);
}

// Becomes the sharded gradient, or is added to that of earlier micro-batches.
Status FlatEngine::keep(FlatUnit& unit, const View& reduced, StreamId stream) {
  const bool host = options_.offload_params;
  const DType dtype = gradient_dtype(unit);
  const bool first = !unit.sharded_gradient.valid();
  BufferId buffer = reduced.buffer;
  if (first && dtype == unit.reduce_dtype && !host) {
    unit.sharded_gradient = buffer;
  } else {
    const Cause why = cause(unit.name, host ? Reason::offload : Reason::accumulate);
    if (first) {
      TESSERA_ASSIGN(
          unit.sharded_gradient,
          allocate(fmt::format("{}.sharded_grad", unit.name), bytes_of(unit.layout.shard, dtype),
                   host ? MemoryClass::pinned_host : MemoryClass::sharded_gradients, stream, why,
                   host ? Memory::pinned_host : Memory::device));
    }
    const View kept = View::whole(unit.sharded_gradient, dtype, unit.layout.shard);
    decltype(Op::what) what = add(reduced, kept);
    if (first) {
      what = Copy{.pieces = {{.from = reduced, .to = kept}},
                  .route = host ? CopyRoute::to_host : CopyRoute::on_device};
    }
    TESSERA_ASSIGN(const EventId done, submit(stream, why, std::move(what)));
    if (buffer != unit.accumulated) TESSERA_TRY(release(buffer, done));
    if (unit.accumulated.valid()) TESSERA_TRY(release(unit.accumulated, done));
  }
  if (unit.accumulated == unit.sharded_gradient) unit.accumulated = {};
  TESSERA_ASSIGN(const EventId kept, mark(cause(unit.name, Reason::reduce_gradients),
                                          marks::gradients_sharded, post_backward_stream_));
  // A cast copy was reduced: the gradient itself goes.
  return unit.accumulated.valid() ? release(unit.accumulated, kept) : Status{};
}

Status FlatEngine::await_reductions() {
  TESSERA_TRY(wait_stream(compute_, post_backward_stream_, cause("root", Reason::needed)));
  if (all_reduce_ != post_backward_stream_) {
    TESSERA_TRY(wait_stream(compute_, all_reduce_, cause("root", Reason::needed)));
  }
  // The CPU steps what was copied to it, and no stream orders the CPU: the host waits.
  return options_.offload_params ? runtime_.wait(last_compute()) : Status{};
}

Status FlatEngine::complete_gradients() {
  for (const FlatUnit& unit : units_) {
    if (unit.accumulated.valid()) return not_reduced(unit.name);
  }
  return {};
}

}  // namespace tessera
