// SPDX-License-Identifier: Apache-2.0
// Gradients from the bodies that add them to the moment they are reduced, and after it.
#include <fmt/format.h>

#include <algorithm>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/sharded_data_parallel/owner_engine.h"
#include "tessera/assert.h"

namespace tessera {

Cause OwnerEngine::cause_of(const GradientBucket& bucket, Reason reason) const {
  Cause why = cause(bucket.name, reason);
  why.module = bucket.module;
  return why;
}

Status OwnerEngine::allocate_fresh(GradientBucket& b) {
  const auto what = b.module.empty() ? b.name : b.module;
  TESSERA_ASSIGN(b.fresh,
                 allocate(fmt::format("{}.grad", what), bytes_of(b.numel, b.dtype),
                          MemoryClass::unsharded_gradients, compute_, cause_of(b, Reason::none)));
  return {};
}

// Straight into the bucket, unless an earlier backward pass has left something there.
Result<View> OwnerEngine::gradient_view(ParameterId id) {
  OwnedParameter& p = at(id);
  if (!has_owner(p)) return unowned_gradient(p);
  if (!p.trained) return trained_meanwhile(p.shard.name);
  if (p.ready) return late_gradient(p.shard.name);
  p.touched = true;
  GradientBucket& bucket = buckets_[p.bucket];
  if (!p.filled) {
    if (!bucket.fresh.valid()) TESSERA_TRY(allocate_fresh(bucket));
    return slice(bucket.fresh, p);
  }
  if (!p.extra.valid()) {
    TESSERA_ASSIGN(p.extra, allocate(p.shard.name + ".grad", bytes_of(p.numel, p.dtype),
                                     MemoryClass::unsharded_gradients, compute_,
                                     cause_of(bucket, Reason::none)));
  }
  return View::whole(p.extra, p.dtype, p.numel);
}

// Nobody steps it: bodies may write, and that is all.
Result<View> OwnerEngine::unowned_gradient(OwnedParameter& p) {
  if (!p.extra.valid()) {
    TESSERA_ASSIGN(
        p.extra, allocate(p.shard.name + ".grad", bytes_of(p.numel, p.dtype),
                          MemoryClass::unsharded_gradients, compute_, cause("root", Reason::none)));
  }
  return View::whole(p.extra, p.dtype, p.numel);
}

Status OwnerEngine::drop_unowned() {
  std::vector<View> gradients;
  for (const OwnedParameter& p : parameters_) {
    if (!has_owner(p) && p.extra.valid()) {
      gradients.push_back(View::whole(p.extra, p.dtype, p.numel));
    }
  }
  if (gradients.empty()) return {};
  TESSERA_ASSIGN(const EventId done, submit(compute_, cause("root", Reason::free_memory),
                                            declare_read(std::move(gradients))));
  for (OwnedParameter& p : parameters_) {
    if (!has_owner(p) && p.extra.valid()) TESSERA_TRY(release(p.extra, done));
  }
  return {};
}

Status OwnerEngine::accumulate(OwnedParameter& p) {
  if (!p.touched) return {};
  p.filled = true;
  if (!p.extra.valid()) return {};
  const GradientBucket& bucket = buckets_[p.bucket];
  TESSERA_ASSERT(bucket.fresh.valid(), "the earlier gradient is in the bucket");
  TESSERA_ASSIGN(const EventId added,
                 submit(compute_, cause_of(bucket, Reason::accumulate),
                        add(View::whole(p.extra, p.dtype, p.numel), slice(bucket.fresh, p))));
  return release(p.extra, added);
}

// Who got no gradient takes part all the same: another rank may have one.
Status OwnerEngine::zero_missing(const GradientBucket& b) {
  Copy zeros;
  for (const std::size_t k : b.parameters) {
    const OwnedParameter& p = parameters_[k];
    const View none{.dtype = p.dtype, .numel = p.numel};
    if (!p.filled) zeros.pieces.push_back({.from = none, .to = slice(b.fresh, p)});
  }
  if (zeros.pieces.empty()) return {};
  return submit(compute_, cause_of(b, Reason::copy_in), std::move(zeros)).status();
}

bool OwnerEngine::unreduced() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const OwnedParameter& p) { return p.filled; });
}

bool OwnerEngine::any_gradient() const {
  return std::any_of(buckets_.begin(), buckets_.end(),
                     [](const GradientBucket& b) { return b.fresh.valid() || b.gradient.valid(); });
}

Status OwnerEngine::expect_reduced(const char* call) const {
  if (!unreduced()) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: gradients of a backward pass without synchronisation were never "
                            "reduced; call reduce, or synchronise the last one",
                            call));
}

Status OwnerEngine::expect_no_gradients(const char* call) {
  TESSERA_TRY(expect_reduced(call));
  return EngineBase::expect_no_gradients(call);
}

std::vector<ParamShard*> OwnerEngine::shards() {
  std::vector<ParamShard*> all;
  for (OwnedParameter& p : parameters_) {
    p.shard.gradient = {};
    if (p.trained && buckets_[p.bucket].gradient.valid()) {
      p.shard.gradient = slice(buckets_[p.bucket].gradient, p);
    }
    all.push_back(&p.shard);
  }
  return all;
}

Status OwnerEngine::free_gradients(EventId stepped) {
  for (GradientBucket& b : buckets_) {
    if (!b.gradient.valid() || !steps_now(b.optimizer)) continue;
    TESSERA_TRY(release_on(owner_set(b.owner), b.gradient, stepped));
  }
  return {};
}

Status OwnerEngine::zero_grad(bool set_to_none) {
  TESSERA_TRY(expect(Stage::idle, "zero_grad"));
  const Cause why = cause("root", Reason::free_memory);
  for (OwnedParameter& p : parameters_) p.filled = false;
  if (!set_to_none) {
    for (const GradientBucket& b : buckets_) {
      const View none{.dtype = b.dtype, .numel = b.numel};
      if (b.fresh.valid()) {
        Copy zeros{.pieces = {{.from = none, .to = whole(b.fresh, b)}}};
        TESSERA_TRY(submit(compute_, why, std::move(zeros)).status());
      }
      if (!b.gradient.valid()) continue;
      Copy zeros{.pieces = {{.from = none, .to = whole(b.gradient, b)}}};
      TESSERA_TRY(submit_on(owner_set(b.owner), compute_, why, std::move(zeros)).status());
    }
    return {};
  }
  TESSERA_ASSIGN(const EventId done, submit(compute_, why, declare_read({})));
  for (GradientBucket& b : buckets_) {
    if (b.fresh.valid()) TESSERA_TRY(release(b.fresh, done));
  }
  return free_gradients(done);
}

}  // namespace tessera
