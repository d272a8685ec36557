// SPDX-License-Identifier: Apache-2.0
// The part of parameters that a rank keeps, and how ranks share it: the unit in which the optimizer
// steps, checkpoints save and full parameters are summoned, whatever the scheme.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/shard_map.h"
#include "tessera/assert.h"
#include "tessera/op.h"
#include "tessera/param_group.h"

namespace tessera {

/// The sharing of shards between ranks: groups of `size` ranks hold all of them, replicas hold the
/// same.
struct ShardGroups {
  Index size = 1;
  CommunicatorId shard;    // the ranks of a group; none if size is 1
  CommunicatorId replica;  // ranks with the same shard; none if there is one group
};

/// One buffer of a rank that the optimizer steps, and what belongs to it.
struct ParamShard {
  bool whole = false;     // the same elements on every rank, whatever its shard index
  Index parts = 1;        // above 1: every rank has the shards of all in `value`, and steps its own
  std::string name;       // "L1.weight", "L1.flat_param"
  std::string_view unit;  // in the Model
  /// How the world shares it, where units have meshes of their own: groups of consecutive ranks.
  /// None: as the engine shares all.
  std::optional<ShardGroups> groups;
  ShardMap map;  // which elements of which parameters it is
  DType dtype = DType::float32;
  Memory memory = Memory::device;  // of value and gradient
  BufferId value;
  Numel first{};   // in value, if several share a buffer
  RankSet where;   // who steps it: gradient and moments are there only. Empty: everyone
  Index owner{};   // the place of those ranks in their groups of replicas
  View unsharded;  // no buffer: the unit is sharded. Padded, perhaps in another dtype
  View gradient;   // no buffer: none in this step
  BufferId exp_avg, exp_avg_sq;         // from the first step on
  std::optional<StateType> state_type;  // of those two, where it is not `dtype`
  bool swapped = false;  // its buffers exist only once shards are loaded, or in its step

  /// Ranks that share it by `groups`; 0: as the engine says.
  Index own_group() const { return groups ? groups->size : 0; }
  View values() const {
    TESSERA_ASSERT(parts == 1 || first == Numel{0}, "the shards of all have a buffer of their own");
    return parts > 1 ? View::shard(value, dtype, map.shard(), parts)
                     : View::part(value, dtype, first, map.shard());
  }
  /// The size of one rank's value.
  Bytes bytes() const { return bytes_of(map.shard(), dtype); }
  /// All of `moment`, which is exp_avg or exp_avg_sq: as bytes where it is kept in 8 bits.
  View moment(BufferId moment) const;
  Bytes moment_bytes() const;
  /// Of its elements, if they are numbers.
  DType moment_dtype() const { return moment({}).dtype; }
};

}  // namespace tessera
