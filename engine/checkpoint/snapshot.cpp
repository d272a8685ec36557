// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/optimizer_step.h"
#include "engine/numbers/arithmetic.h"
#include "engine/values/copies_by_route.h"

namespace tessera {

// Tensors that the same ranks hold share one buffer and few copies: an allocation per tensor would
// cost a model of many parameters more than the copies themselves.
Snapshot::Group& Snapshot::group_of(const RankSet& where, const ShardGroups& sharing) {
  for (Group& group : groups_) {
    if (group.where == where && group.sharing.size == sharing.size) return group;
  }
  groups_.push_back({.where = where, .sharing = sharing, .parts = {}, .copies = {}});
  return groups_.back();
}

bool Snapshot::was_stepped(ParameterId parameter) const {
  return state_.parts().optimizer.groups().steps_taken(parameter) > 0;
}

Status Snapshot::add(const ParamShard& shard, StateTensor tensor, bool local) {
  const bool moment = tensor != StateTensor::value;
  View from = shard.values();
  if (moment) {
    const BufferId id = tensor == StateTensor::exp_avg ? shard.exp_avg : shard.exp_avg_sq;
    const auto& segments = shard.map.segments();
    const bool stepped = std::any_of(segments.begin(), segments.end(),
                                     [&](const auto& s) { return was_stepped(s.parameter); });
    if (!id.valid() || !stepped) return {};
    from = shard.moment(id);
  }
  if (shard.memory == Memory::nvme) {
    return Status(Code::not_supported,
                  fmt::format("{} is on NVMe, where checkpoints cannot read it: offload it to the "
                              "CPU",
                              shard.name));
  }
  // Three cases. A moment that only some ranks hold (an owner's) is saved by them alone. A tensor
  // that replicas hold equally is sliced, so that each replica writes 1 / replicas of it. A
  // parameter in no unit is saved by every rank if it is trained, since its values may differ, else
  // by the first rank.
  const ShardGroups groups = state_.groups_of(shard);
  const bool alone = moment && !shard.where.empty();
  const Index replicas = issuer_.everyone().count() / groups.size;
  Part part{.from = from, .memory = shard.memory, .map = shard.map, .tensor = tensor};
  part.whole = shard.whole;
  part.own_group = shard.own_group();
  part.of_rank = local && shard.map.requires_grad();
  part.of_first = local && !part.of_rank;
  part.sliced = replicas > 1 && !alone && !local;
  part.slice = shard.map.shard();
  if (part.sliced) {
    TESSERA_ASSERT(shard.parts == 1, "replicas of parts of a whole");
    // The View moves by one slice per index of the replica group; the last one is cut at the end.
    part.slice = Numel{(shard.map.shard().value + replicas - 1) / replicas};
    part.from.numel = part.from.step = part.slice;
  }
  Group& group = group_of(alone ? shard.where : issuer_.everyone(), groups);
  part.offset = group.numel;
  group.numel += part.slice;
  group.parts.push_back(std::move(part));
  return {};
}

Status Snapshot::copy(Group& group) {
  const Cause why = issuer_.cause("", Reason::offload);
  TESSERA_ASSIGN(group.buffer, issuer_.allocate_on(
                                   group.where, "checkpoint", bytes_of(group.numel, DType::float32),
                                   MemoryClass::pinned_host, why, Memory::pinned_host));
  std::vector<RoutedBlocks> pieces;
  for (const Part& part : group.parts) {
    const View to = View::part(group.buffer, DType::float32, part.offset, part.slice);
    pieces.push_back(
        {*route_between(part.memory, Memory::pinned_host), {.from = part.from, .to = to}});
  }
  const ShardGroups& groups = group.sharing;
  const bool everyone = group.where == issuer_.everyone();
  const bool replicated = everyone && issuer_.everyone().count() > groups.size;
  const CommunicatorId index_in = replicated ? groups.replica : groups.shard;
  for (Copy& copy : copies_by_route(everyone ? index_in : CommunicatorId{}, pieces)) {
    TESSERA_TRY(
        issuer_.submit_on(group.where, issuer_.compute_stream(), why, std::move(copy)).status());
  }
  group.copies = std::make_shared<std::map<Rank, std::span<const float>>>();
  // The body only notes each rank's address: the thread that writes files reads the copies
  // directly.
  Compute look = declare_read({View::whole(group.buffer, DType::float32, group.numel)});
  look.cost.on_host = true;
  look.body = [copies = group.copies](const BodyContext& context) {
    (*copies)[context.rank()] = context.read_as<float>(0);
  };
  return issuer_.submit_on(group.where, issuer_.compute_stream(), why, std::move(look)).status();
}

Status Snapshot::take() {
  TESSERA_ASSERT(groups_.empty() && !copied_.valid(), "a snapshot is taken once");
  TESSERA_TRY(state_.parts().optimizer.expect_adam_states());
  TESSERA_TRY(state_.load_shards(false));
  for (const bool local : {false, true}) {
    for (const ParamShard* shard : local ? state_.local_shards() : state_.shards()) {
      for (const auto tensor :
           {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
        TESSERA_TRY(add(*shard, tensor, local));
      }
    }
  }
  // Of parameters without elements there is nothing to copy, and nothing to look at.
  std::erase_if(groups_, [](const Group& group) { return group.numel == Numel{0}; });
  for (Group& group : groups_) TESSERA_TRY(copy(group));
  const Cause why = issuer_.cause("", Reason::offload);
  TESSERA_ASSIGN(copied_, issuer_.submit_on(issuer_.everyone(), issuer_.compute_stream(), why,
                                            declare_read({})));
  return issuer_.runtime().wait(copied_);
}

void Snapshot::append(Rank rank, const Part& part, std::span<const float> copy,
                      std::vector<PieceData>& pieces) const {
  if (part.of_first && rank != issuer_.everyone().first()) return;
  // A rank's slice [begin, end) of its shard is intersected with the parameters in the shard, and
  // each intersection is cut into pieces; what they are called does not depend on the ranks.
  const Numel shard = part.map.shard();
  const Index replica =
      part.own_group > 0 ? static_cast<Index>(rank) / part.own_group : state_.replica_index(rank);
  const Numel begin = part.sliced ? std::min(shard, part.slice * replica) : Numel{0};
  const Numel end = std::min(shard, begin + part.slice);
  const Index index = state_.index_of(part.whole, part.own_group, rank);
  for (const ShardPiece& held : part.map.pieces(index)) {
    if (part.tensor != StateTensor::value && !was_stepped(held.parameter)) continue;
    Numel from = std::max(begin, held.offset);
    const Numel to = std::min(end, held.offset + held.numel);
    for (Numel numel; from < to; from += numel) {
      numel = std::min(to - from, piece_numel_max);
      const Numel place = part.offset + (from - begin);
      pieces.push_back({{.parameter = issuer_.model().parameter(held.parameter).name,
                         .tensor = part.tensor,
                         .first = held.first + (from - held.offset),
                         .numel = numel,
                         .rank = part.of_rank ? rank : all_ranks},
                        copy.subspan(static_cast<std::size_t>(place.value),
                                     static_cast<std::size_t>(numel.value))});
    }
  }
}

std::vector<PieceData> Snapshot::pieces(Rank rank) const {
  std::vector<PieceData> all;
  for (const Group& group : groups_) {
    const auto copy = group.copies->find(rank);
    if (copy == group.copies->end()) continue;
    TESSERA_ASSERT(std::ssize(copy->second) == group.numel.value, "a rank has a copy of all parts");
    for (const Part& part : group.parts) append(rank, part, copy->second, all);
  }
  return all;
}

Status Snapshot::give_back() {
  TESSERA_ASSERT(copied_.valid(), "copies are given back after they were made");
  for (Group& group : groups_) {
    if (group.buffer.valid()) TESSERA_TRY(issuer_.release_on(group.where, group.buffer, copied_));
  }
  groups_.clear();
  return {};
}

}  // namespace tessera
