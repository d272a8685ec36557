// SPDX-License-Identifier: Apache-2.0
// Gathers full copies and leaves them in the memory and on the ranks that are wanted.
#include <algorithm>

#include "engine/summon/summon_ops.h"
#include "tessera/assert.h"

namespace tessera {

View SummonOps::own_part(const FullCopy& copy, Numel offset, Numel part) const {
  View view = View::part(copy.buffer, copy.dtype, offset, part);
  if (copy.groups.size == 1) return view;
  view.step = copy.rank_part;
  view.end = numel(copy);
  return view;
}

CopyBlocks SummonOps::from_unsharded(const FullCopy& copy, const FullCopySource& source) const {
  const Numel shard = source.shard.numel;
  TESSERA_ASSERT(source.unsharded.numel == shard * copy.groups.size,
                 "a scheme's gathered copy has the shard of every rank, padding included");
  View from = source.unsharded;
  from.numel = shard;
  View to = View::part(copy.buffer, copy.dtype, source.offset, shard);
  to.end = numel(copy);
  return {.from = from,
          .to = to,
          .count = copy.groups.size,
          .from_pitch = shard,
          .to_pitch = copy.rank_part};
}

Status SummonOps::copy_own_parts(const FullCopy& copy, const std::vector<RoutedBlocks>& pieces) {
  const CommunicatorId index_in = copy.groups.size == 1 ? CommunicatorId{} : copy.groups.shard;
  for (Copy& routed : copies_by_route(index_in, pieces)) {
    TESSERA_TRY(submit(copy, std::move(routed), everyone_).status());
  }
  return {};
}

Status SummonOps::gather(FullCopy& copy) {
  TESSERA_ASSERT(!copy.buffer.valid() && !copy.sources.empty(),
                 "a copy is gathered once, of shards");
  TESSERA_ASSIGN(copy.buffer, allocate(copy, "", Memory::device, everyone_));
  copy.where = everyone_;
  const bool there =
      std::all_of(copy.sources.begin(), copy.sources.end(), [&](const FullCopySource& s) {
        return s.unsharded.buffer.valid() && s.unsharded.dtype == copy.dtype;
      });
  if (!there) return gather_shards(copy);
  Copy local;
  for (const auto& source : copy.sources) local.pieces.push_back(from_unsharded(copy, source));
  return submit(copy, std::move(local), everyone_).status();
}

// A single shard on the device is the input of the all_gather. Several shards, or one in host
// memory, are first packed into the rank's own part of the output, which then is an in-place
// all_gather.
Status SummonOps::gather_shards(const FullCopy& copy) {
  const bool sharded = copy.groups.size > 1;
  const bool in_place =
      !sharded || copy.sources.size() > 1 || copy.sources.front().memory != Memory::device;
  if (in_place) {
    std::vector<RoutedBlocks> pack;
    for (const auto& source : copy.sources) {
      pack.push_back(
          {*route_between(source.memory, Memory::device),
           {.from = source.shard, .to = own_part(copy, source.offset, source.shard.numel)}});
    }
    TESSERA_TRY(copy_own_parts(copy, pack));
  }
  if (!sharded) return {};
  const View input =
      in_place ? own_part(copy, Numel{0}, copy.rank_part) : copy.sources.front().shard;
  return submit(copy, AllGather{copy.groups.shard, input, whole(copy)}, everyone_).status();
}

// Leaves the copy on the holders only, in the memory that the options ask for. All other ranks free
// theirs as soon as the gather is done.
Status SummonOps::leave_with_holders(FullCopy& copy, bool offload) {
  // The caller may read any element, so an op without work declares a read of all of them: the
  // checks then see every later write as ordered after it.
  Compute views{.cost = {.kernels = 0}, .reads = {whole(copy)}, .writes = {}, .body = {}};
  TESSERA_ASSIGN(const EventId ready, submit(copy, std::move(views), everyone_));
  if (!offload) {
    copy.where = holders_;
    return release(copy.buffer, ready, everyone_.minus(holders_));
  }
  TESSERA_ASSIGN(const BufferId host, allocate(copy, ".host", Memory::pinned_host, holders_));
  const View from = whole(copy);
  const BufferId device = std::exchange(copy.buffer, host);
  copy.memory = Memory::pinned_host;
  copy.where = holders_;
  TESSERA_ASSIGN(
      const EventId moved,
      submit(copy, Copy{.pieces = {{.from = from, .to = whole(copy)}}, .route = CopyRoute::to_host},
             holders_));
  // In two calls: who holds nothing gives the device's memory back before the others have moved it.
  TESSERA_TRY(release(device, ready, everyone_.minus(holders_)));
  return release(device, moved, holders_);
}

// After a commit the scheme's own gathered copy still has the old values, so it is gathered anew.
Status SummonOps::gather_again(const FullCopy& copy) {
  FullCopy fresh = copy;
  TESSERA_ASSIGN(fresh.buffer, allocate(copy, ".again", Memory::device, everyone_));
  TESSERA_TRY(gather_shards(fresh));
  Copy out;
  for (const auto& source : fresh.sources) {
    if (!source.unsharded.buffer.valid()) continue;
    CopyBlocks blocks = from_unsharded(fresh, source);
    std::swap(blocks.from, blocks.to);
    std::swap(blocks.from_pitch, blocks.to_pitch);
    out.pieces.push_back(blocks);
  }
  TESSERA_ASSIGN(const EventId done, submit(fresh, std::move(out), everyone_));
  return release(fresh.buffer, done, everyone_);
}

}  // namespace tessera
