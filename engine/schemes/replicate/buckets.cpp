// SPDX-License-Identifier: Apache-2.0
// Planning, filling and rebuilding buckets.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/replicate/replicate_engine.h"
#include "tessera/assert.h"

namespace tessera {

// torch/nn/parallel/distributed.py: only where no cap is given is the first bucket small.
std::vector<Bytes> ReplicateEngine::bucket_caps() const {
  if (!options_.bucket_caps.empty()) return options_.bucket_caps;
  constexpr Bytes usual{25 << 20};
  constexpr Bytes small{1 << 20};
  const Bytes first = options_.first_bucket_cap.value_or(options_.bucket_cap.value_or(small));
  return {first, options_.bucket_cap.value_or(usual)};
}

// Without find_unused_parameters everything is one bucket: it is soon rebuilt anyway.
void ReplicateEngine::plan_first_buckets() {
  std::vector<BucketTensor> tensors;
  std::vector<std::size_t> trained;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    if (!parameters_[k].trained) continue;
    trained.push_back(k);
    const DType dtype = parameters_[k].shard.dtype;
    tensors.push_back({bytes_of(parameters_[k].numel, dtype), dtype});
  }
  const bool by_size = finds_unused();
  const std::vector<Bytes> limits =
      by_size ? bucket_caps() : std::vector{Bytes{std::numeric_limits<std::int64_t>::max()}};
  BucketAssignment assignment = assign_buckets(tensors, limits);
  // The last registered parameters are expected to be ready first.
  std::reverse(assignment.buckets.begin(), assignment.buckets.end());
  for (auto& bucket : assignment.buckets) {
    for (std::size_t& index : bucket) index = trained[index];
  }
  lay_out(assignment.buckets);
}

void ReplicateEngine::lay_out(const std::vector<std::vector<std::size_t>>& buckets) {
  buckets_.clear();
  for (const auto& indices : buckets) {
    TESSERA_ASSERT(!indices.empty(), "a bucket has a parameter");
    Bucket bucket;
    // Causes outlive buckets, which are rebuilt.
    bucket.name = runtime_.keep_name(fmt::format("bucket {}", buckets_.size()));
    bucket.parameters = indices;
    bucket.dtype = parameters_[indices.front()].shard.dtype;
    for (std::size_t k : indices) {
      parameters_[k].bucket = buckets_.size();
      parameters_[k].offset = bucket.numel;
      bucket.numel += parameters_[k].numel;
    }
    buckets_.push_back(std::move(bucket));
  }
}

Status ReplicateEngine::allocate_buckets() {
  for (Bucket& bucket : buckets_) {
    TESSERA_ASSIGN(
        bucket.buffer,
        allocate(std::string(bucket.name), bytes_of(bucket.numel, bucket.dtype),
                 MemoryClass::reduce_buffers, compute_, cause(bucket.name, Reason::none)));
  }
  return {};
}

// Parameters of a static graph that are never used come last.
std::vector<std::size_t> ReplicateEngine::rebuild_order() const {
  std::vector<std::size_t> order = ready_order_;
  std::vector<bool> listed(parameters_.size(), false);
  for (std::size_t k : ready_order_) listed[k] = true;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    if (parameters_[k].trained && !listed[k]) order.push_back(k);
  }
  return order;
}

// Once, in the order in which gradients became ready; rank 0's plan counts for all.
Status ReplicateEngine::rebuild_if_due() {
  const bool possible = options_.static_graph || !options_.find_unused_parameters;
  // A static graph first counts uses; its second backward shows the order that will stay.
  const std::int32_t after = options_.static_graph ? 2 : 1;
  if (rebuilt_ || !possible || synced_backwards_ < after) return {};
  rebuilt_ = true;
  std::vector<BucketTensor> tensors;
  const std::vector<std::size_t> order = rebuild_order();
  for (std::size_t k : order) {
    const DType dtype = parameters_[k].shard.dtype;
    tensors.push_back({bytes_of(parameters_[k].numel, dtype), dtype});
  }
  const auto assignment = assign_buckets(tensors, bucket_caps(), order);
  TESSERA_TRY(broadcast_numbers("bucket_indices", static_cast<std::int64_t>(order.size()) + 1));
  TESSERA_TRY(
      broadcast_numbers("bucket_sizes", static_cast<std::int64_t>(assignment.buckets.size())));
  TESSERA_ASSERT(next_bucket_ == 0 || next_bucket_ == buckets_.size(), "no reduction is under way");
  std::vector<Bucket> old = std::move(buckets_);
  const std::vector<ReplicatedParameter> before = parameters_;
  // Only where gradients are views of buckets, and some were kept from before the rebuild.
  const bool moves = std::any_of(before.begin(), before.end(), [](const ReplicatedParameter& p) {
    return p.trained && p.has_gradient && !p.gradient.valid();
  });
  lay_out(assignment.buckets);
  if (moves) {
    TESSERA_TRY(allocate_buckets());
    TESSERA_TRY(move_gradients(old, before));
  }
  for (Bucket& bucket : old) TESSERA_TRY(release(bucket.buffer, last_compute()));
  return moves ? Status{} : allocate_buckets();
}

// Gradients that live in buckets. On every rank, so that joined ones can release them after it.
Status ReplicateEngine::move_gradients(const std::vector<Bucket>& old,
                                       const std::vector<ReplicatedParameter>& before) {
  Copy move;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const ReplicatedParameter& p = before[k];
    if (!p.trained || !p.has_gradient) continue;
    const View from = View::part(old[p.bucket].buffer, p.shard.dtype, p.offset, p.numel);
    move.pieces.push_back({.from = from, .to = slice(parameters_[k])});
  }
  return submit_on(everyone_, compute_, cause("root", Reason::order), std::move(move)).status();
}

// Gradients are added straight to the buckets, which still hold those of the last step.
Status ReplicateEngine::clear_views() {
  for (const Bucket& bucket : buckets_) {
    Copy zeros;
    for (std::size_t k : bucket.parameters) {
      const ReplicatedParameter& p = parameters_[k];
      const View none{.dtype = p.shard.dtype, .numel = p.numel};
      if (!p.has_gradient) zeros.pieces.push_back({.from = none, .to = slice(p)});
    }
    if (zeros.pieces.empty()) continue;
    TESSERA_TRY(submit(compute_, cause(bucket.name, Reason::none), std::move(zeros)).status());
  }
  return {};
}

// .grad += the gradient of this backward pass.
Status ReplicateEngine::accumulate(ReplicatedParameter& p) {
  if (!p.fresh.valid()) {  // it was written into the bucket, or nobody has computed it
    p.has_gradient |= views() && p.trained;
    return {};
  }
  if (!p.has_gradient) {
    p.gradient = std::exchange(p.fresh, BufferId{});
    p.has_gradient = true;
    return {};
  }
  const View into = p.gradient.valid() ? whole(p.gradient, p) : slice(p);
  TESSERA_ASSIGN(const EventId added,
                 submit(compute_, cause_of(p, Reason::accumulate), add(whole(p.fresh, p), into)));
  return release(p.fresh, added);
}

// Times 1 / divisor, so that the sum over ranks is the mean; a hook divides by itself.
Status ReplicateEngine::copy_into_bucket(ReplicatedParameter& p, bool zeros) {
  const Cause why = cause_of(p, Reason::copy_in);
  if (zeros) {
    const View none{.dtype = p.shard.dtype, .numel = p.numel};
    return submit(compute_, why, Copy{.pieces = {{.from = none, .to = slice(p)}}}).status();
  }
  const View from = p.gradient.valid() ? whole(p.gradient, p) : slice(p);
  // Divided before the sum, as the reducer does: the sum of all ranks could overflow in fp16.
  if (!hook_) return submit(compute_, why, multiply(from, slice(p), 1.0F / divisor())).status();
  if (!p.gradient.valid()) return {};
  return submit(compute_, why, Copy{.pieces = {{.from = from, .to = slice(p)}}}).status();
}

Status ReplicateEngine::mark_ready(ReplicatedParameter& p) {
  TESSERA_ASSERT(p.trained, "only what is reduced is counted");
  TESSERA_TRY(copy_into_bucket(p, /*zeros=*/!p.has_gradient));
  TESSERA_ASSERT(buckets_[p.bucket].pending > 0, "a gradient is ready once in a backward pass");
  --buckets_[p.bucket].pending;
  return launch_ready_buckets();
}

// Parameters that this forward did not use count as ready.
Status ReplicateEngine::mark_unused() {
  swept_unused_ = true;
  for (ReplicatedParameter& p : parameters_) {
    if (!p.trained || p.ready || used_[p.id.index()]) continue;
    p.ready = true;
    TESSERA_TRY(mark_ready(p));
  }
  return {};
}

}  // namespace tessera
