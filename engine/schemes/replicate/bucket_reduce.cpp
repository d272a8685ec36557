// SPDX-License-Identifier: Apache-2.0
// Reducing full buckets, by a hook or as they are, and handing back what came out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/schemes/replicate/replicate_engine.h"
#include "engine/schemes/replicate/stream_hook_context.h"
#include "tessera/assert.h"

namespace tessera {

// Strictly in order: a later bucket that is full already waits.
Status ReplicateEngine::launch_ready_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) {
    const std::size_t index = next_bucket_++;
    Bucket& bucket = buckets_[index];
    TESSERA_ASSERT(bucket.buffer.valid(), "a bucket has memory while gradients are reduced");
    TESSERA_TRY(zero_for_joined(bucket));
    TESSERA_TRY(wait_stream(nccl_, compute_, cause(bucket.name, Reason::order)));
    if (hook_) {
      TESSERA_ASSIGN(bucket.reduced, run_hook(index));
    } else {
      const View all = View::whole(bucket.buffer, bucket.dtype, bucket.numel);
      decltype(Op::what) what = AllReduce{world_, all, all, Reduction::sum};
      if (world_size_ == 1) what = Mark{marks::gradients_sharded};
      TESSERA_ASSIGN(bucket.reduced,
                     submit(nccl_, cause(bucket.name, Reason::reduce_gradients), std::move(what)));
    }
    // Behind the last bucket, so that the map delays no gradient.
    if (next_bucket_ == buckets_.size() && finds_unused()) TESSERA_TRY(reduce_used_map());
  }
  return {};
}

Result<EventId> ReplicateEngine::run_hook(std::size_t index) {
  const Bucket& bucket = buckets_[index];
  GradBucket seen{.index = index,
                  .is_last = index + 1 == buckets_.size(),
                  .values = View::whole(bucket.buffer, bucket.dtype, bucket.numel),
                  .parameters = {}};
  for (std::size_t k : bucket.parameters) {
    const ReplicatedParameter& p = parameters_[k];
    seen.parameters.push_back({p.id, name(p), model_.parameter(p.id).shape, p.offset, p.numel});
  }
  StreamHookContext context(runtime_, nccl_, world_, everyone_,
                            cause(bucket.name, Reason::reduce_gradients), divisor());
  auto reduced = hook_->reduce(seen, context);
  if (!reduced.ok()) {
    return Status(reduced.status().code(),
                  fmt::format("communication hook {} on {}: {}", hook_->name(), bucket.name,
                              reduced.status().message()));
  }
  if (reduced->valid()) return reduced;
  return Status(Code::invalid_argument,
                fmt::format("communication hook {} on {} returned no event: nobody could wait for "
                            "its result",
                            hook_->name(), bucket.name));
}

// Ranks without inputs take part with gradients of zero.
Status ReplicateEngine::zero_for_joined(const Bucket& bucket) {
  const RankSet ranks = joined();
  if (ranks.empty()) return {};
  const View none{.dtype = bucket.dtype, .numel = bucket.numel};
  const View all = View::whole(bucket.buffer, bucket.dtype, bucket.numel);
  return submit_on(ranks, compute_, cause(bucket.name, Reason::copy_in),
                   Copy{.pieces = {{.from = none, .to = all}}})
      .status();
}

// Which parameters some rank has used: the others keep their gradient.
Status ReplicateEngine::reduce_used_map() {
  if (world_size_ == 1) return {};
  TESSERA_ASSERT(used_map_.valid() && used_since_sync_.size() == parameters_.size(),
                 "a flag for every parameter, and room for them");
  const Cause why = cause("root", Reason::order);
  const View all =
      View::whole(used_map_, DType::int32, Numel{static_cast<std::int64_t>(parameters_.size())});
  Compute fill;
  fill.writes = {all};
  fill.body = [used = used_since_sync_, active = active_](const BodyContext& context) {
    const bool counts = active.contains(context.rank());
    std::vector<float> flags(used.size());
    for (std::size_t k = 0; k < used.size(); ++k) flags[k] = counts && used[k] ? 1.0F : 0.0F;
    context.kernels().write(flags, {context.write(0), DType::int32});
  };
  TESSERA_TRY(submit_on(everyone_, compute_, why, std::move(fill)).status());
  TESSERA_TRY(wait_stream(nccl_, compute_, why));
  TESSERA_ASSIGN(used_map_reduced_,
                 submit(nccl_, why, AllReduce{world_, all, all, Reduction::sum}));
  return {};
}

Status ReplicateEngine::finish_buckets() {
  if (next_bucket_ < buckets_.size()) {
    std::vector<std::string> missing;
    for (const ReplicatedParameter& p : parameters_) {
      if (!p.trained || p.ready) continue;
      missing.push_back(fmt::format("{} ({})", name(p), buckets_[p.bucket].name));
    }
    unfinished_ = fmt::format("{}", fmt::join(missing, ", "));
    return {};
  }
  for (const Bucket& bucket : buckets_) TESSERA_TRY(finish_bucket(bucket));
  if (!finds_unused() || world_size_ == 1) return {};
  const Cause why = cause("root", Reason::needed);
  TESSERA_TRY(wait_event(compute_, used_map_reduced_, why));
  Compute look;
  look.reads = {
      View::whole(used_map_, DType::int32, Numel{static_cast<std::int64_t>(parameters_.size())})};
  return submit_on(everyone_, compute_, why, std::move(look)).status();
}

Status ReplicateEngine::finish_bucket(const Bucket& bucket) {
  TESSERA_ASSERT(bucket.reduced.valid(), "a bucket is finished after it was reduced");
  TESSERA_TRY(wait_event(compute_, bucket.reduced, cause(bucket.name, Reason::needed)));
  Copy copy;
  bool wanted = false;
  for (std::size_t k : bucket.parameters) {
    ReplicatedParameter& p = parameters_[k];
    wanted = wanted || p.has_gradient;
    // Unused on all ranks: the gradient stays as it was.
    if (!p.gradient.valid() || !used_since_sync_[k]) continue;
    copy.pieces.push_back({.from = slice(p), .to = whole(p.gradient, p)});
  }
  const bool nobody = copy.pieces.empty() && !(views() && wanted);
  const Cause why = cause(bucket.name, Reason::copy_out);
  if (!copy.pieces.empty()) TESSERA_TRY(submit(compute_, why, std::move(copy)).status());
  // Every rank that has the result must use it, or its release would not follow the reduction.
  const RankSet idle = nobody ? everyone_ : joined();
  if (idle.empty()) return {};
  Compute discard{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  discard.reads = {View::whole(bucket.buffer, bucket.dtype, bucket.numel)};
  return submit_on(idle, compute_, cause(bucket.name, Reason::order), std::move(discard)).status();
}

}  // namespace tessera
