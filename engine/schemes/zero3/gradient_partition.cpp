// SPDX-License-Identifier: Apache-2.0
// Gradients: collected in a bucket, reduce-scattered, kept as partitions (deepspeed stage3.py:
// reduce_independent_p_g_buckets_and_remove_grads, partition_grads; coalesced_collectives.py).
#include <fmt/format.h>

#include <algorithm>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {
namespace {

constexpr std::size_t reductions_in_flight = 2;

}  // namespace

Result<View> Zero3Engine::gradient_view(ParameterId id) {
  OnDemandParameter& p = at(id);
  if (!p.gradient.valid()) {
    TESSERA_ASSIGN(
        p.gradient,
        allocate(fmt::format("{}.grad", name(p)), bytes_of(p.numel, param_dtype()),
                 MemoryClass::unsharded_gradients, compute_, cause(p.held.unit, Reason::none)));
  }
  return View::whole(p.gradient, param_dtype(), p.numel);
}

Status Zero3Engine::grad_ready(ParameterId parameter) {
  TESSERA_TRY(expect(Stage::backward, "grad_ready"));
  OnDemandParameter& p = at(parameter);
  if (!p.trained) return {};
  if (p.reduced) {
    return Status(Code::invalid_argument,
                  fmt::format("the gradient of {} became ready twice in one backward, but has "
                              "already been reduced",
                              name(p)));
  }
  TESSERA_TRY(note(p, {Mark::Kind::gradient_ready}));
  return p.gradient.valid() ? add_to_bucket(p) : Status{};
}

// A gradient larger than the bucket stays where it is and is reduced alone.
Status Zero3Engine::add_to_bucket(OnDemandParameter& p) {
  if (!bucket_.empty() && bucket_numel_ + p.numel > options_.reduce_bucket) {
    TESSERA_TRY(reduce_bucket());
  }
  const Cause why = cause(p.held.unit, Reason::copy_in);
  TESSERA_TRY(wait_stream(reduce_, compute_, cause(p.held.unit, Reason::order)));
  p.bucketed = View::whole(p.gradient, param_dtype(), p.numel);
  if (bucket_numel_ + p.numel < options_.reduce_bucket) {
    const View place = View::part(bucket_buffer_, param_dtype(), bucket_numel_, p.numel);
    TESSERA_ASSIGN(const EventId copied,
                   submit(reduce_, why, Copy{.pieces = {{.from = p.bucketed, .to = place}}}));
    TESSERA_TRY(release(p.gradient, copied));
    p.bucketed = place;
  }
  p.reduced = true;
  bucket_.push_back(p.id);
  bucket_numel_ += p.numel;
  return {};
}

Status Zero3Engine::reduce_bucket() {
  if (bucket_.empty()) return {};
  if (ongoing_reductions_.size() > reductions_in_flight) {
    TESSERA_TRY(runtime_.wait(ongoing_reductions_.front()));
    ongoing_reductions_.pop_front();
  }
  std::sort(bucket_.begin(), bucket_.end());
  std::vector<OnDemandParameter*> quantized;
  std::vector<OnDemandParameter*> others;
  for (ParameterId id : bucket_) (quantizes(at(id)) ? quantized : others).push_back(&at(id));
  bucket_.clear();
  bucket_numel_ = {};
  TESSERA_TRY(reduce_together(std::move(quantized)));
  return reduce_together(std::move(others));
}

Status Zero3Engine::reduce_together(std::vector<OnDemandParameter*> bucket) {
  if (bucket.empty()) return {};
  Numel partition{};
  for (const OnDemandParameter* p : bucket) partition += p->partition;
  TESSERA_ASSIGN(const View packed, pack(bucket, partition));
  if (everyone_.count() > 1) {
    TESSERA_TRY(submit(reduce_, cause(bucket.front()->held.unit, Reason::divide),
                       divide(packed, static_cast<float>(everyone_.count())))
                    .status());
  }
  TESSERA_TRY(scatter(bucket, packed, partition));
  TESSERA_ASSIGN(const EventId done,
                 note(bucket.front()->held.unit, "", {Mark::Kind::gradients_sharded},
                      Reason::reduce_gradients, reduce_));
  ongoing_reductions_.push_back(done);
  return {};
}

// Rank r's part holds the r-th slice of every gradient. A single one that needs no padding is
// reduced where it is.
Result<View> Zero3Engine::pack(const std::vector<OnDemandParameter*>& bucket, Numel partition) {
  const OnDemandParameter& first = *bucket.front();
  const Numel all = partition * ranks_;
  if (bucket.size() == 1 && all == first.numel && param_dtype() == reduce_dtype()) {
    return first.bucketed;
  }
  const Cause why = cause(first.held.unit, Reason::copy_in);
  TESSERA_ASSIGN(const BufferId flat, allocate("reduce_bucket.flat", bytes_of(all, reduce_dtype()),
                                               MemoryClass::reduce_buffers, reduce_, why));
  Copy copy;
  Numel offset{};
  for (const OnDemandParameter* p : bucket) {
    View from = p->bucketed;  // cut at its end: the rest of the slice becomes zero
    from.numel = p->partition;
    View to = View::part(flat, reduce_dtype(), offset, p->partition);
    to.end = all;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = ranks_,
                           .from_pitch = p->partition,
                           .to_pitch = partition});
    offset += p->partition;
  }
  TESSERA_TRY(submit(reduce_, why, std::move(copy)).status());
  return View::whole(flat, reduce_dtype(), all);
}

// Not in place as in DeepSpeed: adding to earlier micro-batches needs the same elements everywhere.
Status Zero3Engine::scatter(const std::vector<OnDemandParameter*>& bucket, const View& packed,
                            Numel partition) {
  const Cause why = cause(bucket.front()->held.unit, Reason::reduce_gradients);
  TESSERA_ASSIGN(BufferId out,
                 allocate("reduce_bucket.partition", bytes_of(partition, reduce_dtype()),
                          MemoryClass::reduce_buffers, reduce_, why));
  const View scattered = View::whole(out, reduce_dtype(), partition);
  TESSERA_ASSIGN(const EventId reduced, reduce_scatter(bucket, packed, scattered, why));
  BufferId flat = packed.buffer;
  const bool own = flat == bucket_buffer_ || flat == bucket.front()->gradient;
  if (!own) TESSERA_TRY(release(flat, reduced));
  for (OnDemandParameter* p : bucket) {
    if (p->gradient.valid()) TESSERA_TRY(release(p->gradient, reduced));
  }
  TESSERA_TRY(keep_reduced().status());
  unkept_ = {bucket, scattered, keeps_later(packed) ? reduced : EventId{}};
  return keeps_later(packed) ? Status{} : keep_reduced().status();
}

// strict packs the next bucket while one is reduced, and looks at the result after that. What is
// reduced where gradients are collected has to be done before the next ones come.
bool Zero3Engine::keeps_later(const View& packed) const {
  return facts_.rules.packs_while_reducing && packed.buffer != bucket_buffer_;
}

Result<EventId> Zero3Engine::keep_reduced() {
  if (unkept_.bucket.empty()) return EventId{};
  const Reduced done = std::exchange(unkept_, {});
  const std::string_view unit = done.bucket.front()->held.unit;
  if (done.reduced.valid()) {
    TESSERA_TRY(wait_event(reduce_, done.reduced, cause(unit, Reason::order)));
  }
  TESSERA_TRY(keep(done.bucket, done.scattered));
  TESSERA_ASSIGN(const EventId kept,
                 note(unit, "", {Mark::Kind::gradients_sharded}, Reason::accumulate, reduce_));
  BufferId out = done.scattered.buffer;
  TESSERA_TRY(release(out, kept));
  return kept;
}

View Zero3Engine::gradient_partition(const OnDemandParameter& p) const {
  return View::part(partitions_[static_cast<std::size_t>(p.held.memory)], param_dtype(), p.place,
                    p.partition);
}

// The device adds: what was there comes back, and leaves again.
Status Zero3Engine::add_on_host(const OnDemandParameter& p, const View& fresh) {
  const Cause why = cause(p.held.unit, Reason::accumulate);
  TESSERA_ASSIGN(BufferId sum,
                 allocate(p.held.name + ".grad_sum", bytes_of(p.partition, param_dtype()),
                          MemoryClass::reduce_buffers, reduce_, why));
  const View there = gradient_partition(p);
  const View here = View::whole(sum, param_dtype(), p.partition);
  TESSERA_TRY(submit(reduce_, why,
                     Copy{.pieces = {{.from = there, .to = here}}, .route = CopyRoute::to_device})
                  .status());
  TESSERA_TRY(submit(reduce_, why, add(fresh, here)).status());
  TESSERA_ASSIGN(const EventId back, submit(reduce_, why,
                                            Copy{.pieces = {{.from = here, .to = there}},
                                                 .route = CopyRoute::to_host}));
  return release(sum, back);
}

// Copied in the first micro-batch that has one, added in later ones.
Status Zero3Engine::keep(const std::vector<OnDemandParameter*>& bucket, const View& scattered) {
  const std::string_view unit = bucket.front()->held.unit;
  std::vector<RoutedBlocks> pieces;
  Numel offset{};
  for (OnDemandParameter* p : bucket) {
    const View from = View::part(scattered.buffer, reduce_dtype(), offset, p->partition);
    const View to = gradient_partition(*p);
    const bool host = p->held.memory != Memory::device;
    offset += p->partition;
    if (!std::exchange(p->has_gradient, true)) {
      pieces.push_back(
          {host ? CopyRoute::to_host : CopyRoute::on_device, {.from = from, .to = to}});
    } else if (host) {
      TESSERA_TRY(add_on_host(*p, from));
    } else {
      TESSERA_TRY(submit(reduce_, cause(unit, Reason::accumulate), add(from, to)).status());
    }
  }
  return submit_by_route(reduce_, cause(unit, Reason::copy_out), {}, pieces).status();
}

// Also what is ready though nobody said so. The host waits, as in DeepSpeed.
Status Zero3Engine::finish_reductions() {
  for (OnDemandParameter& p : parameters_) {
    if (p.gradient.valid() && !p.reduced) TESSERA_TRY(add_to_bucket(p));
  }
  TESSERA_TRY(reduce_bucket());
  TESSERA_ASSIGN(const EventId kept, keep_reduced());
  if (kept.valid()) ongoing_reductions_.push_back(kept);
  if (ongoing_reductions_.empty()) return {};
  TESSERA_TRY(runtime_.wait(ongoing_reductions_.back()));
  ongoing_reductions_.clear();
  return wait_stream(compute_, reduce_, cause("root", Reason::needed));
}

Status Zero3Engine::free_gradients(EventId /*stepped*/) {
  for (OnDemandParameter& p : parameters_) p.has_gradient = false;
  settled_ = false;
  return {};
}

}  // namespace tessera
