// SPDX-License-Identifier: Apache-2.0
// Gradients from the bodies that write them until their bucket is reduced (deepspeed
// stage_1_and_2.py: reduce_independent_p_g_buckets_and_remove_grads).
#include <fmt/format.h>

#include <algorithm>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero12/zero12_engine.h"
#include "tessera/assert.h"

namespace tessera {

Result<View> Zero12Engine::gradient_view(ParameterId id) {
  PartedParameter& p = at(id);
  if (!p.trained) return trained_later(name(p));
  if (p.ready) return late_gradient(name(p));
  if (!p.fresh.valid()) {
    TESSERA_ASSIGN(
        p.fresh, allocate(fmt::format("{}.grad", name(p)), bytes_of(p.numel, param_dtype()),
                          MemoryClass::unsharded_gradients, compute_, cause("root", Reason::none)));
  }
  return View::whole(p.fresh, param_dtype(), p.numel);
}

// Nobody writes this gradient any more in this pass.
Status Zero12Engine::finish_gradient(PartedParameter& p) {
  if (!p.fresh.valid()) return {};
  if (parts_gradients()) return add_to_bucket(p, p.fresh);
  if (!p.gradient.valid()) {
    p.gradient = std::exchange(p.fresh, BufferId{});
    return {};
  }
  TESSERA_ASSIGN(const EventId added, submit(compute_, cause("root", Reason::accumulate),
                                             add(View::whole(p.fresh, param_dtype(), p.numel),
                                                 View::whole(p.gradient, param_dtype(), p.numel))));
  return release(p.fresh, added);
}

// As in DeepSpeed they exist while gradients are reduced; but without room that could never be
// used.
Status Zero12Engine::open_buckets() {
  TESSERA_ASSERT(buckets_.empty(), "the buckets of the pass before were closed");
  const Numel size = std::min(options_.reduce_bucket, flat_.layout.total);
  buckets_.assign(overlaps() ? 2 : 1, {});
  filled_ = 0;
  if (size == Numel{0}) return {};
  for (PartBucket& bucket : buckets_) {
    TESSERA_ASSIGN(bucket.buffer,
                   allocate("reduce_bucket", bytes_of(size, param_dtype()),
                            MemoryClass::reduce_buffers, compute_, cause("root", Reason::none)));
  }
  return {};
}

Status Zero12Engine::close_buckets() {
  for (PartBucket& bucket : buckets_) {
    if (bucket.buffer.valid()) TESSERA_TRY(release(bucket.buffer, bucket.reduced));
  }
  buckets_.clear();
  return {};
}

// Takes the gradient's buffer.
Status Zero12Engine::add_to_bucket(PartedParameter& p, BufferId& gradient) {
  TESSERA_ASSERT(gradient.valid() && filled_ < buckets_.size(), "buckets are open in backward");
  PartBucket* bucket = &buckets_[filled_];
  if (!bucket->entries.empty() && bucket->numel + p.numel > options_.reduce_bucket) {
    TESSERA_TRY(reduce(*bucket));
    // With overlap the other bucket is filled while this one is on its way.
    filled_ = (filled_ + 1) % buckets_.size();
    bucket = &buckets_[filled_];
  }
  // Too large for any bucket: it is reduced where it is.
  if (p.numel > options_.reduce_bucket) {
    PartBucket alone{.buffer = gradient, .entries = {{p.id, p.place, Numel{0}, p.numel}}};
    alone.numel = p.numel;
    TESSERA_TRY(reduce(alone));
    return release(gradient, alone.reduced);
  }
  TESSERA_ASSERT(bucket->numel + p.numel <= options_.reduce_bucket, "there is room in the bucket");
  // The first copy into a bucket must not overtake what is still read from it.
  if (bucket->entries.empty() && bucket->reduced.valid() && overlaps()) {
    TESSERA_TRY(wait_event(compute_, bucket->reduced, cause("root", Reason::order)));
  }
  const View from = View::whole(gradient, param_dtype(), p.numel);
  const View to = View::part(bucket->buffer, param_dtype(), bucket->numel, p.numel);
  TESSERA_ASSIGN(const EventId copied, submit(compute_, cause("root", Reason::copy_in),
                                              Copy{.pieces = {{.from = from, .to = to}}}));
  bucket->entries.push_back({p.id, p.place, bucket->numel, p.numel});
  bucket->numel += p.numel;
  return release(gradient, copied);
}

// Reduces the rest of the bucket; after this the optimizer may look.
Status Zero12Engine::flush() {
  TESSERA_ASSERT(filled_ < buckets_.size(), "buckets are open until they are flushed");
  TESSERA_TRY(reduce(buckets_[filled_]));
  if (overlaps()) TESSERA_TRY(wait_stream(compute_, reduce_, cause("root", Reason::needed)));
  return close_buckets();
}

Status Zero12Engine::reduce_rest() {
  const bool any = std::any_of(parameters_.begin(), parameters_.end(),
                               [](const PartedParameter& p) { return p.gradient.valid(); });
  if (!any) return {};
  TESSERA_TRY(open_buckets());
  for (const FlatLayout::Entry& entry : flat_.layout.entries) {
    PartedParameter& p = at(entry.parameter);
    if (p.gradient.valid()) TESSERA_TRY(add_to_bucket(p, p.gradient));
  }
  return flush();
}

}  // namespace tessera
