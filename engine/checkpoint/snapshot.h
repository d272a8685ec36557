// SPDX-License-Identifier: Apache-2.0
// A copy in host memory of the elements that every rank saves: replicas save equal parts of what
// they hold in common, an owner saves the state that only it has.
//
// The idea: copies are operations like any other, so traces and memory accounts see them. Another
// thread may read the copies in host memory until `give_back` releases them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/base/sharded_state.h"
#include "engine/checkpoint/piece_file.h"

namespace tessera {

class Snapshot {
 public:
  explicit Snapshot(ShardedState& state) : state_(state), issuer_(state.issuer()) {}

  /// Waits until all copies are made. Fails: out_of_memory; not_supported (values on NVMe).
  Status take();
  /// The pieces that `rank` saves, valid until `give_back`. REQUIRES: `rank` is local.
  std::vector<PieceData> pieces(Rank rank) const;
  Status give_back();

 private:
  // A tensor of a shard, or a replica's slice of it.
  struct Part {
    View from;
    Memory memory = Memory::device;
    ShardMap map;
    StateTensor tensor = StateTensor::value;
    bool whole = false;     // map of one shard
    Index own_group = 0;    // as the shard's
    bool of_rank = false;   // every rank has values of its own
    bool of_first = false;  // the first rank saves it
    bool sliced = false;
    Numel slice{};
    Numel offset{};  // in the copy
  };
  // The copies of one set of ranks that share what is copied alike, in one buffer.
  struct Group {
    RankSet where;
    ShardGroups sharing;
    std::vector<Part> parts;
    Numel numel{};
    BufferId buffer;
    std::shared_ptr<std::map<Rank, std::span<const float>>> copies;
  };

  Status add(const ParamShard& shard, StateTensor tensor, bool local);
  bool was_stepped(ParameterId parameter) const;
  Group& group_of(const RankSet& where, const ShardGroups& sharing);
  Status copy(Group& group);
  void append(Rank rank, const Part& part, std::span<const float> copy,
              std::vector<PieceData>& pieces) const;

  ShardedState& state_;
  Issuer& issuer_;
  std::vector<Group> groups_;
  EventId copied_;
};

}  // namespace tessera
