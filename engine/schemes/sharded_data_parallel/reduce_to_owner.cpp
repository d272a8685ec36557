// SPDX-License-Identifier: Apache-2.0
// Reducing gradients to their owners, in one order on all ranks.
#include "engine/numbers/arithmetic.h"
#include "engine/schemes/sharded_data_parallel/owner_engine.h"
#include "tessera/assert.h"

namespace tessera {

DType OwnerEngine::wire_dtype(const GradientBucket& bucket) const {
  return options_.reduce_dtype.value_or(bucket.dtype);
}

// Strictly in order: a later bucket that is complete already waits.
Status OwnerEngine::launch_ready() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) {
    TESSERA_TRY(launch(buckets_[next_bucket_++]));
  }
  return {};
}

Status OwnerEngine::launch(GradientBucket& b) {
  TESSERA_ASSERT(!b.wire.valid(), "a bucket is finished before it is reduced again");
  if (!b.fresh.valid()) TESSERA_TRY(allocate_fresh(b));
  TESSERA_TRY(zero_missing(b));
  for (const std::size_t k : b.parameters) parameters_[k].filled = false;
  if (ranks_ == 1) {
    b.wire = std::exchange(b.fresh, BufferId{});
    return {};
  }
  const bool casts = wire_dtype(b) != b.dtype;
  b.wire = b.fresh;
  if (casts) {
    TESSERA_ASSIGN(b.wire,
                   allocate(std::string(b.name) + ".wire", bytes_of(b.numel, wire_dtype(b)),
                            MemoryClass::reduce_buffers, compute_, cause_of(b, Reason::copy_in)));
  }
  const View wire = View::whole(b.wire, wire_dtype(b), b.numel);
  // Divided by every rank before the sum, so that the sum fits a narrow dtype.
  const float share = 1.0F / static_cast<float>(ranks_);
  TESSERA_ASSIGN(const EventId divided, submit(compute_, cause_of(b, Reason::divide),
                                               multiply(whole(b.fresh, b), wire, share)));
  if (casts) TESSERA_TRY(release(b.fresh, divided));
  b.fresh = {};
  TESSERA_TRY(wait_stream(comm_, compute_, cause_of(b, Reason::order)));
  TESSERA_TRY(submit(comm_, cause_of(b, Reason::reduce_gradients),
                     Reduce{group_, wire, wire, Reduction::sum, b.owner})
                  .status());
  // To the others the result means nothing: they give the memory back.
  TESSERA_ASSIGN(
      const EventId discarded,
      submit_on(others(b.owner), comm_, cause_of(b, Reason::free_memory), declare_read({wire})));
  BufferId elsewhere = b.wire;
  return release_on(others(b.owner), elsewhere, discarded);
}

Status OwnerEngine::flush() {
  while (next_bucket_ < buckets_.size()) TESSERA_TRY(launch(buckets_[next_bucket_++]));
  if (ranks_ > 1) {
    TESSERA_TRY(wait_stream(compute_, comm_, cause("root", Reason::needed)));
  }
  // One wait for all: an owner reads none of its buckets before the last reduction anyway.
  for (GradientBucket& b : buckets_) TESSERA_TRY(finish(b));
  TESSERA_ASSERT(!unreduced(), "whatever backward computed lies in a bucket that was reduced");
  return {};
}

// On the owner what was reduced becomes the gradient, or is added to it.
Status OwnerEngine::finish(GradientBucket& b) {
  TESSERA_ASSERT(b.wire.valid(), "what is finished was reduced");
  const RankSet owner = owner_set(b.owner);
  const DType dtype = ranks_ == 1 ? b.dtype : wire_dtype(b);
  const View wire = View::whole(b.wire, dtype, b.numel);
  if (!b.gradient.valid() && dtype == b.dtype) {
    b.gradient = std::exchange(b.wire, BufferId{});
    return submit_on(owner, compute_, cause_of(b, Reason::needed), declare_read({wire})).status();
  }
  decltype(Op::what) what;
  Reason reason = Reason::accumulate;
  if (b.gradient.valid()) {
    what = add(wire, whole(b.gradient, b));
  } else {
    reason = Reason::copy_out;
    TESSERA_ASSIGN(b.gradient, allocate_on(owner, std::string(b.name) + ".reduced_grad",
                                           bytes_of(b.numel, b.dtype),
                                           MemoryClass::sharded_gradients, cause_of(b, reason)));
    what = Copy{.pieces = {{.from = wire, .to = whole(b.gradient, b)}}};
  }
  TESSERA_ASSIGN(const EventId kept,
                 submit_on(owner, compute_, cause_of(b, reason), std::move(what)));
  return release_on(owner, b.wire, kept);
}

}  // namespace tessera
