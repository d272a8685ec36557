// SPDX-License-Identifier: Apache-2.0
// Ranks agree on the model: when it is set up rank 0's values are taken by all, before a forward
// pass its buffers, after uneven inputs the values of a rank that worked longest.
#include <fmt/format.h>

#include "engine/schemes/replicate/replicate_engine.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

constexpr Bytes broadcast_bucket{250 << 20};

}  // namespace

Status ReplicateEngine::sync_model() {
  TESSERA_TRY(verify_model());
  return broadcast_state(/*root=*/0);
}

// The number of parameters of every rank, then rank 0's sizes and strides.
Status ReplicateEngine::verify_model() {
  const Cause why = cause("root", Reason::order);
  TESSERA_ASSIGN(BufferId counts,
                 allocate("parameter_counts", bytes_of(Numel{world_size_}, DType::int64),
                          MemoryClass::temporary, nccl_, why));
  const View own = View::shard(counts, DType::int64, Numel{1}, world_size_);
  Compute count;
  count.writes = {View::whole(counts, DType::int64, Numel{world_size_})};
  TESSERA_TRY(submit_on(everyone_, nccl_, why, std::move(count)).status());
  TESSERA_ASSIGN(
      const EventId gathered,
      submit(nccl_, why,
             AllGather{world_, own, View::whole(counts, DType::int64, Numel{world_size_})}));
  TESSERA_TRY(wait_event(compute_, gathered, why));
  Compute compare;
  compare.reads = {View::whole(counts, DType::int64, Numel{world_size_})};
  TESSERA_ASSIGN(const EventId compared, submit_on(everyone_, compute_, why, std::move(compare)));
  TESSERA_TRY(release(counts, compared));
  std::int64_t numbers = 0;
  for (const Parameter& p : model_.parameters) {
    numbers += 2 * static_cast<std::int64_t>(p.shape.size());
  }
  return broadcast_numbers("sizes_and_strides", numbers, DType::int64);
}

Status ReplicateEngine::broadcast_numbers(const std::string& name, std::int64_t count,
                                          DType dtype) {
  if (world_size_ == 1) return {};
  const Cause why = cause("root", Reason::order);
  const Numel numel{std::max<std::int64_t>(1, count)};
  TESSERA_ASSIGN(BufferId buffer,
                 allocate(name, bytes_of(numel, dtype), MemoryClass::temporary, nccl_, why));
  const View all = View::whole(buffer, dtype, numel);
  Compute fill;
  fill.writes = {all};
  TESSERA_TRY(submit_on(everyone_, nccl_, why, std::move(fill)).status());
  TESSERA_ASSIGN(const EventId sent, submit(nccl_, why, Broadcast{world_, all}));
  TESSERA_TRY(wait_event(compute_, sent, why));
  Compute use;
  use.reads = {all};
  TESSERA_ASSIGN(const EventId used, submit_on(everyone_, compute_, why, std::move(use)));
  return release(buffer, used);
}

std::vector<View> ReplicateEngine::buffer_views() const {
  std::vector<View> views;
  for (std::size_t k = 0; k < module_buffers_.size(); ++k) {
    const Buffer& buffer = model_.buffers[k];
    const Numel numel{buffer.bytes().value / bytes_of(Numel{1}, buffer.dtype).value};
    if (!module_buffers_[k].valid() || numel == Numel{0}) continue;
    views.push_back(View::whole(module_buffers_[k], buffer.dtype, numel));
  }
  return views;
}

Status ReplicateEngine::broadcast_state(Index root) {
  std::vector<View> values;
  for (const ReplicatedParameter& p : parameters_) values.push_back(whole(p.shard.value, p));
  const std::vector<View> buffers = buffer_views();
  values.insert(values.end(), buffers.begin(), buffers.end());
  return broadcast_coalesced(values, root);
}

// Those of one dtype together, until they are 250 MiB: torch assigns them as gradients.
Status ReplicateEngine::broadcast_coalesced(const std::vector<View>& views, Index root) {
  std::vector<BucketTensor> tensors;
  for (const View& view : views) tensors.push_back({bytes_of(view.numel, view.dtype), view.dtype});
  for (const auto& bucket : assign_buckets(tensors, {broadcast_bucket}).buckets) {
    std::vector<View> together;
    for (const std::size_t k : bucket) together.push_back(views[k]);
    TESSERA_TRY(broadcast_together(together, root));
  }
  return {};
}

Status ReplicateEngine::broadcast_together(const std::vector<View>& views, Index root) {
  const Cause why = cause("root", Reason::order);
  const DType dtype = views.front().dtype;
  Numel numel{};
  for (const View& view : views) numel += view.numel;
  TESSERA_ASSIGN(BufferId coalesced, allocate("coalesced_model", bytes_of(numel, dtype),
                                              MemoryClass::temporary, compute_, why));
  Copy in, out;
  Numel offset{};
  for (const View& view : views) {
    const View place = View::part(coalesced, dtype, offset, view.numel);
    in.pieces.push_back({.from = view, .to = place});
    out.pieces.push_back({.from = place, .to = view});
    offset += view.numel;
  }
  TESSERA_TRY(submit_on(everyone_, compute_, why, std::move(in)).status());
  TESSERA_TRY(wait_stream(nccl_, compute_, why));
  TESSERA_ASSIGN(const EventId sent,
                 submit(nccl_, why, Broadcast{world_, View::whole(coalesced, dtype, numel), root}));
  TESSERA_TRY(wait_event(compute_, sent, why));
  TESSERA_ASSIGN(const EventId copied, submit_on(everyone_, compute_, why, std::move(out)));
  return release(coalesced, copied);
}

// Rank 0's; with uneven inputs those of the largest rank that still has some.
Status ReplicateEngine::sync_buffers() {
  // As in torch the forward before this one decides: after one without sync, or without a
  // backward pass to come, nothing is sent.
  const bool stale = std::exchange(buffers_stale_, sync_ && trains());
  const std::vector<View> views = buffer_views();
  if (!stale || !options_.broadcast_buffers || views.empty() || world_size_ == 1) return {};
  Index root = 0;
  if (join_.entered) {
    TESSERA_ASSERT(!active_.empty(), "a step without inputs on any rank was refused");
    root = active_.ranges().back().end - 1;
    TESSERA_TRY(agree_on_number("buffer_root", Reduction::max, [ranks = active_](Rank r) {
      return ranks.contains(r) ? static_cast<float>(r) : -1.0F;
    }));
  }
  return broadcast_coalesced(views, root);
}

}  // namespace tessera
