// SPDX-License-Identifier: Apache-2.0
// What DDP does when it is set up: ranks agree on the model, rank 0's values are taken by all.
#include <fmt/format.h>

#include "engine/reduce/replicate_engine.h"

namespace tessera {
namespace {

constexpr Bytes broadcast_bucket{250 << 20};

}  // namespace

Status ReplicateEngine::sync_model() {
  TESSERA_TRY(verify_model());
  return broadcast_parameters();
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
  TESSERA_TRY(submit(nccl_, why, std::move(count)).status());
  TESSERA_ASSIGN(
      const EventId gathered,
      submit(nccl_, why,
             AllGather{world_, own, View::whole(counts, DType::int64, Numel{world_size_})}));
  TESSERA_TRY(wait_event(compute_, gathered, why));
  Compute compare;
  compare.reads = {View::whole(counts, DType::int64, Numel{world_size_})};
  TESSERA_ASSIGN(const EventId compared, submit(compute_, why, std::move(compare)));
  TESSERA_TRY(release(counts, compared));
  std::int64_t numbers = 0;
  for (const Parameter& p : model_.parameters) {
    numbers += 2 * static_cast<std::int64_t>(p.shape.size());
  }
  return broadcast_numbers("sizes_and_strides", numbers);
}

Status ReplicateEngine::broadcast_numbers(const std::string& name, std::int64_t count) {
  if (world_size_ == 1) return {};
  const Cause why = cause("root", Reason::order);
  const Numel numel{std::max<std::int64_t>(1, count)};
  TESSERA_ASSIGN(BufferId buffer,
                 allocate(name, bytes_of(numel, DType::int32), MemoryClass::temporary, nccl_, why));
  const View all = View::whole(buffer, DType::int32, numel);
  Compute fill;
  fill.writes = {all};
  TESSERA_TRY(submit(nccl_, why, std::move(fill)).status());
  TESSERA_ASSIGN(const EventId sent, submit(nccl_, why, Broadcast{world_, all}));
  TESSERA_TRY(wait_event(compute_, sent, why));
  Compute use;
  use.reads = {all};
  TESSERA_ASSIGN(const EventId used, submit(compute_, why, std::move(use)));
  return release(buffer, used);
}

// Coalesced, at most 250 MiB at a time beyond the largest parameter.
Status ReplicateEngine::broadcast_parameters() {
  const Cause why = cause("root", Reason::order);
  for (std::size_t k = 0; k < parameters_.size();) {
    Copy in, out;
    Numel numel{};
    std::size_t end = k;
    while (end < parameters_.size() && (end == k || bytes_of(numel + parameters_[end].numel,
                                                             options_.dtype) <= broadcast_bucket)) {
      numel += parameters_[end++].numel;
    }
    TESSERA_ASSIGN(BufferId coalesced,
                   allocate("coalesced_parameters", bytes_of(numel, options_.dtype),
                            MemoryClass::temporary, compute_, why));
    Numel offset{};
    for (; k < end; ++k) {
      const ReplicatedParameter& p = parameters_[k];
      const View place = View::part(coalesced, options_.dtype, offset, p.numel);
      in.pieces.push_back({.from = whole(p.held.value, p), .to = place});
      out.pieces.push_back({.from = place, .to = whole(p.held.value, p)});
      offset += p.numel;
    }
    TESSERA_TRY(submit(compute_, why, std::move(in)).status());
    TESSERA_TRY(wait_stream(nccl_, compute_, why));
    TESSERA_ASSIGN(
        const EventId sent,
        submit(nccl_, why, Broadcast{world_, View::whole(coalesced, options_.dtype, numel)}));
    TESSERA_TRY(wait_event(compute_, sent, why));
    TESSERA_ASSIGN(const EventId copied, submit(compute_, why, std::move(out)));
    TESSERA_TRY(release(coalesced, copied));
  }
  return {};
}

}  // namespace tessera
