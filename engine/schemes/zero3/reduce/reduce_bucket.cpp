// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/reduce/reduce_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/numbers/arithmetic.h"

namespace tessera {
namespace {

constexpr std::size_t reductions_in_flight = 2;

}  // namespace

// As in DeepSpeed it exists from the start; but it has no room that could never be used.
Status ReduceBucket::allocate() {
  gradients_.resize(parameters_.size());
  Numel trained{};
  for (const OnDemandParameter& p : parameters_) {
    if (p.trained) trained += p.numel;
  }
  const Numel numel = std::min(trained, facts_.options.reduce_bucket);
  if (numel == Numel{0}) return {};
  TESSERA_ASSIGN(buffer_,
                 operations_.allocate("reduce_bucket", bytes_of(numel, facts_.param_dtype()),
                                      MemoryClass::reduce_buffers, facts_.reduce,
                                      cause("root", Reason::none)));
  return {};
}

Status ReduceBucket::release(EventId after) {
  TESSERA_ASSERT(members_.empty() && unkept_.bucket.empty(), "no gradient waits in the bucket");
  return buffer_.valid() ? operations_.release(buffer_, after) : Status{};
}

// Every pass may bring each gradient once; that twice is a fault is only known within one.
void ReduceBucket::begin_backward() {
  TESSERA_ASSERT(members_.empty() && unkept_.bucket.empty(),
                 "the pass before reduced all of its own");
  for (Gradient& gradient : gradients_) gradient.reduced = false;
}

Result<View> ReduceBucket::view(ParameterId id) {
  const OnDemandParameter& p = parameters_[id];
  Gradient& gradient = at(id);
  if (!p.trained) return CallOrder::trained_meanwhile(facts_.name(id));
  if (gradient.reduced) return CallOrder::late_gradient(facts_.name(id));
  if (!gradient.fresh.valid()) {
    TESSERA_ASSIGN(gradient.fresh,
                   operations_.allocate(fmt::format("{}.grad", facts_.name(id)),
                                        bytes_of(p.numel, facts_.param_dtype()),
                                        MemoryClass::unsharded_gradients, facts_.compute,
                                        cause(p.shard.unit, Reason::none)));
  }
  return View::whole(gradient.fresh, facts_.param_dtype(), p.numel);
}

Status ReduceBucket::ready(ParameterId id) {
  OnDemandParameter& p = parameters_[id];
  if (!p.trained) return {};
  if (at(id).reduced) {
    return Status(Code::invalid_argument,
                  fmt::format("the gradient of {} became ready twice in one backward, but has "
                              "already been reduced",
                              facts_.name(id)));
  }
  TESSERA_TRY(operations_
                  .note(facts_.compute, cause(p.shard.unit, Reason::none), facts_.name(id),
                        {marks::gradient_ready})
                  .status());
  return at(id).fresh.valid() ? add(p) : Status{};
}

Status ReduceBucket::fill_missing(const std::vector<ParameterId>& ids) {
  for (ParameterId id : ids) {
    const OnDemandParameter& p = parameters_[id];
    if (!p.trained || at(id).reduced || at(id).fresh.valid()) continue;
    TESSERA_ASSIGN(const View gradient, view(id));
    View zeros = gradient;  // a view of no buffer: zeros
    zeros.buffer = {};
    TESSERA_TRY(operations_
                    .submit(facts_.compute, cause(p.shard.unit, Reason::none),
                            Copy{.pieces = {{.from = zeros, .to = gradient}}})
                    .status());
    TESSERA_TRY(ready(id));
  }
  return {};
}

// A gradient larger than the bucket stays where it is and is reduced alone.
Status ReduceBucket::add(OnDemandParameter& p) {
  const Numel room = facts_.options.reduce_bucket;
  if (!members_.empty() && numel_ + p.numel > room) TESSERA_TRY(reduce());
  Gradient& gradient = at(p.id);
  TESSERA_ASSERT(gradient.fresh.valid(), "what joins the bucket was computed");
  const Cause why = cause(p.shard.unit, Reason::copy_in);
  TESSERA_TRY(
      operations_.wait_stream(facts_.reduce, facts_.compute, cause(p.shard.unit, Reason::order)));
  gradient.bucketed = View::whole(gradient.fresh, facts_.param_dtype(), p.numel);
  if (numel_ + p.numel < room) {
    const View place = View::part(buffer_, facts_.param_dtype(), numel_, p.numel);
    TESSERA_ASSIGN(const EventId copied,
                   operations_.submit(facts_.reduce, why,
                                      Copy{.pieces = {{.from = gradient.bucketed, .to = place}}}));
    TESSERA_TRY(operations_.release(gradient.fresh, copied));
    gradient.bucketed = place;
  }
  TESSERA_ASSERT(!gradient.reduced, "a gradient is in the bucket once");
  gradient.reduced = true;
  members_.push_back(p.id);
  numel_ += p.numel;
  return {};
}

// What is quantised and what is not are two collectives. The host stays at most two reductions
// ahead of the device.
Status ReduceBucket::reduce() {
  if (members_.empty()) return {};
  if (ongoing_.size() > reductions_in_flight) {
    TESSERA_TRY(operations_.wait(ongoing_.front()));
    ongoing_.pop_front();
  }
  // By id as in DeepSpeed, whatever the order in which they became ready.
  std::sort(members_.begin(), members_.end());
  Members quantized;
  Members others;
  for (ParameterId id : members_) {
    OnDemandParameter& p = parameters_[id];
    (quantized_.takes(p) ? quantized : others).push_back(&p);
  }
  members_.clear();
  numel_ = {};
  TESSERA_TRY(reduce_together(quantized));
  return reduce_together(others);
}

Result<EventId> ReduceBucket::note(std::string_view unit, Reason reason) {
  return operations_.note(facts_.reduce, cause(unit, reason), "", {marks::gradients_sharded});
}

Status ReduceBucket::reduce_together(const Members& bucket) {
  if (bucket.empty()) return {};
  const std::string_view unit = bucket.front()->shard.unit;
  Numel partition{};
  for (const OnDemandParameter* p : bucket) partition += p->partition;
  TESSERA_ASSIGN(const View packed, pack(bucket, partition));
  if (facts_.everyone > 1) {
    TESSERA_TRY(operations_
                    .submit(facts_.reduce, cause(unit, Reason::divide),
                            divide(packed, static_cast<float>(facts_.everyone)))
                    .status());
  }
  TESSERA_TRY(scatter(bucket, packed, partition));
  TESSERA_ASSIGN(const EventId done, note(unit, Reason::reduce_gradients));
  ongoing_.push_back(done);
  return {};
}

// Rank r's part holds the r-th slice of every gradient. A single one that needs no padding is
// reduced where it is.
Result<View> ReduceBucket::pack(const Members& bucket, Numel partition) {
  const OnDemandParameter& first = *bucket.front();
  const DType dtype = facts_.reduce_dtype();
  const Numel all = partition * facts_.ranks;
  if (bucket.size() == 1 && all == first.numel && facts_.param_dtype() == dtype) {
    return at(first.id).bucketed;
  }
  const Cause why = cause(first.shard.unit, Reason::copy_in);
  TESSERA_ASSIGN(const BufferId flat,
                 operations_.allocate("reduce_bucket.flat", bytes_of(all, dtype),
                                      MemoryClass::reduce_buffers, facts_.reduce, why));
  Copy copy;
  Numel offset{};
  for (const OnDemandParameter* p : bucket) {
    View from = at(p->id).bucketed;  // cut at its end: the rest of the slice becomes zero
    from.numel = p->partition;
    View to = View::part(flat, dtype, offset, p->partition);
    to.end = all;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = facts_.ranks,
                           .from_pitch = p->partition,
                           .to_pitch = partition});
    offset += p->partition;
  }
  TESSERA_ASSERT(offset == partition, "the slices of a rank are its part of the flat buffer");
  TESSERA_TRY(operations_.submit(facts_.reduce, why, std::move(copy)).status());
  return View::whole(flat, dtype, all);
}

Result<EventId> ReduceBucket::collect(const Members& bucket, const View& packed,
                                      const View& scattered, const Cause& why) {
  if (quantized_.takes(*bucket.front())) return quantized_.reduce(packed, scattered, why);
  const Cause order = cause(why.unit, Reason::order);
  TESSERA_TRY(operations_.wait_stream(facts_.nccl, facts_.reduce, order));
  TESSERA_ASSIGN(
      const EventId reduced,
      operations_.submit(facts_.nccl, why,
                         ReduceScatter{facts_.world, packed, scattered, Reduction::sum}));
  if (!keeps_later(packed)) TESSERA_TRY(operations_.wait_event(facts_.reduce, reduced, order));
  return reduced;
}

// Not in place as in DeepSpeed: adding to earlier micro-batches needs the same elements everywhere.
Status ReduceBucket::scatter(const Members& bucket, const View& packed, Numel partition) {
  const Cause why = cause(bucket.front()->shard.unit, Reason::reduce_gradients);
  const DType dtype = facts_.reduce_dtype();
  TESSERA_ASSIGN(BufferId out,
                 operations_.allocate("reduce_bucket.partition", bytes_of(partition, dtype),
                                      MemoryClass::reduce_buffers, facts_.reduce, why));
  const View scattered = View::whole(out, dtype, partition);
  TESSERA_ASSIGN(const EventId reduced, collect(bucket, packed, scattered, why));
  BufferId flat = packed.buffer;
  const bool own = flat == buffer_ || flat == at(bucket.front()->id).fresh;
  if (!own) TESSERA_TRY(operations_.release(flat, reduced));
  for (const OnDemandParameter* p : bucket) {
    BufferId& fresh = at(p->id).fresh;
    if (fresh.valid()) TESSERA_TRY(operations_.release(fresh, reduced));
  }
  // The result of the bucket before is looked at now, while this one is on its way.
  TESSERA_TRY(keep_reduced().status());
  TESSERA_ASSERT(unkept_.bucket.empty(), "one result waits at a time");
  unkept_ = {bucket, scattered, keeps_later(packed) ? reduced : EventId{}};
  return keeps_later(packed) ? Status{} : keep_reduced().status();
}

// strict packs the next bucket while one is reduced, and looks at the result after that. What is
// reduced where gradients are collected has to be done before the next ones come.
bool ReduceBucket::keeps_later(const View& packed) const {
  return facts_.rules.packs_while_reducing && packed.buffer != buffer_;
}

Result<EventId> ReduceBucket::keep_reduced() {
  if (unkept_.bucket.empty()) return EventId{};
  const Reduced done = std::exchange(unkept_, {});
  const std::string_view unit = done.bucket.front()->shard.unit;
  if (done.after.valid()) {
    TESSERA_TRY(operations_.wait_event(facts_.reduce, done.after, cause(unit, Reason::order)));
  }
  TESSERA_TRY(kept_.keep(done.bucket, done.scattered));
  TESSERA_ASSIGN(const EventId kept, note(unit, Reason::accumulate));
  BufferId out = done.scattered.buffer;
  TESSERA_TRY(operations_.release(out, kept));
  return kept;
}

// Gradients of micro-batches are only there as partitions from here on; the compute stream may use
// them.
Status ReduceBucket::finish() {
  for (OnDemandParameter& p : parameters_) {
    if (at(p.id).fresh.valid() && !at(p.id).reduced) TESSERA_TRY(add(p));
  }
  TESSERA_TRY(reduce());
  TESSERA_ASSIGN(const EventId kept, keep_reduced());
  if (kept.valid()) ongoing_.push_back(kept);
  if (ongoing_.empty()) return {};
  TESSERA_TRY(operations_.wait(ongoing_.back()));
  ongoing_.clear();
  return operations_.wait_stream(facts_.compute, facts_.reduce, cause("root", Reason::needed));
}

}  // namespace tessera
