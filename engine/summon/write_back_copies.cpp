// SPDX-License-Identifier: Apache-2.0
// Writes full copies back into the shards.
#include "engine/summon/summon_ops.h"
#include "tessera/assert.h"

namespace tessera {

// Every rank has the copy and takes its own part of it, without communication.
Status SummonOps::scatter(const FullCopy& copy) {
  TESSERA_ASSERT(copy.buffer.valid(), "only what is open is written back");
  std::vector<RoutedBlocks> back;
  for (const auto& source : copy.sources) {
    back.push_back(
        {*route_between(copy.memory, source.memory),
         {.from = own_part(copy, source.offset, source.shard.numel), .to = source.shard}});
  }
  return copy_own_parts(copy, back);
}

// Only rank 0 has the copy. It is broadcast to the first rank of every group, then inside the
// groups.
Status SummonOps::broadcast(const FullCopy& copy) {
  FullCopy sent = copy;
  sent.memory = Memory::device;
  TESSERA_ASSIGN(sent.buffer, allocate(copy, ".broadcast", Memory::device, everyone_));
  Copy fill{.pieces = {{.from = whole(copy), .to = whole(sent)}},
            .route = *route_between(copy.memory, Memory::device)};
  TESSERA_TRY(submit(copy, std::move(fill), holders_).status());
  if (copy.groups.replica.valid()) {
    std::vector<Rank> first;
    for (const RankRange& range : everyone_.ranges()) {
      for (Rank rank = range.begin; rank < range.end; ++rank) {
        if (state_.index_of(false, copy.own_group, rank) == 0) first.push_back(rank);
      }
    }
    TESSERA_TRY(
        submit(sent, Broadcast{copy.groups.replica, whole(sent), 0}, RankSet::of(first)).status());
  }
  if (copy.groups.size > 1) {
    TESSERA_TRY(submit(sent, Broadcast{copy.groups.shard, whole(sent), 0}, everyone_).status());
  }
  TESSERA_TRY(scatter(sent));
  TESSERA_ASSIGN(const EventId done, submit(sent, Wait{}, everyone_));
  return release(sent.buffer, done, everyone_);
}

Status SummonOps::write_back(const FullCopy& copy) {
  if (copy.sources.empty()) return {};
  return holders_ == everyone_ ? scatter(copy) : broadcast(copy);
}

Status SummonOps::write_back(SummonedUnit& unit) {
  TESSERA_TRY(write_back(unit.values));
  TESSERA_TRY(write_back(unit.gradients));
  return unit.left_unsharded ? gather_again(unit.values) : Status{};
}

}  // namespace tessera
