// SPDX-License-Identifier: Apache-2.0
// An engine between two passes, as other parts of the library see it: the shards that a rank holds,
// how ranks share them, and what has to happen before they are read or written.
//
// The idea: summon_full_params, checkpoints, optimizer state and gradient scalers work on shards,
// not on a scheme. They reach this interface by Engine::sharded_state() and issue their operations
// with the engine's own issuer, so that traces and checks see them like any others.
//
//   ShardedState& state = *engine.sharded_state();
//   TESSERA_TRY(state.parts().calls.expect(CallOrder::Stage::idle, "save"));
//   TESSERA_TRY(state.load_shards(/*moments=*/false));
//   for (const ParamShard* shard : state.all_shards()) ... shard->values() ...
#pragma once

#include <string_view>
#include <vector>

#include "engine/base/call_order.h"
#include "engine/base/issuer.h"
#include "engine/base/param_shard.h"
#include "engine/base/unit_table.h"

namespace tessera {

class LocalParameters;
class OptimizerStep;

/// The parts of an engine that are the same in all schemes.
struct EngineParts {
  Issuer& issuer;
  CallOrder& calls;
  const UnitTable& units;
  OptimizerStep& optimizer;
  LocalParameters& locals;
};

class ShardedState {
 public:
  virtual ~ShardedState() = default;

  virtual EngineParts parts() = 0;

  /// The shards of units, in their order, with the gradients and gathered copies of now.
  virtual std::vector<ParamShard*> shards() = 0;
  /// Which ranks together hold every parameter once.
  virtual ShardGroups shard_groups() const = 0;
  /// The place of a rank among those that hold different shards.
  virtual Index shard_index(Rank rank) const = 0;
  /// The place of a rank among those that hold the same.
  virtual Index replica_index(Rank rank) const {
    return static_cast<Index>(rank) / shard_groups().size;
  }
  /// The first rank of each set of ranks that trains a model of its own.
  virtual RankSet first_ranks() const = 0;
  /// All streams but the compute stream.
  virtual std::vector<StreamId> side_streams() const = 0;

  /// Comes before a look at buffers of shards, or a write to them, outside of a step.
  /// `moments`: also of what was never stepped.
  virtual Status load_shards(bool /*moments*/) { return {}; }
  /// Values will be written outside of a step, by each rank its own.
  virtual Status before_write() { return {}; }
  /// Ends gathers that are under way, so that shards show what is unsharded.
  virtual Status finish_gathers() { return {}; }
  /// A limiter: before a unit is gathered, and after a gathered unit was freed.
  virtual Status before_gather() { return {}; }
  virtual Status after_free(std::string_view /*unit*/) { return {}; }

  Issuer& issuer() { return parts().issuer; }
  /// Those of parameters that are in no unit.
  std::vector<ParamShard*> local_shards();
  /// Both: all that the optimizer may step.
  std::vector<ParamShard*> all_shards();
  /// Which ranks together hold the shard's parameters once.
  ShardGroups groups_of(const ParamShard& shard) const {
    return shard.groups.value_or(shard_groups());
  }
  /// The index by which a shard's map says what `rank` has of it; `own_group` is the shard's.
  Index index_of(bool whole, Index own_group, Rank rank) const {
    if (whole) return 0;
    return own_group > 0 ? static_cast<Index>(rank) % own_group : shard_index(rank);
  }
  Index index_of(const ParamShard& shard, Rank rank) const {
    return index_of(shard.whole, shard.own_group(), rank);
  }
  /// Empty work whose views of shards know the rank's index.
  Compute shard_work() const;
};

/// Values that a rank's shards begin with: one op a unit.
Status make_values(ShardedState& state);
/// As Engine::initialise and Engine::inspect_shards.
Status write_values(ShardedState& state, const std::function<float(ParameterId, Numel)>& value);
Status read_values(ShardedState& state, ParameterId parameter,
                   const std::function<void(Rank, Numel, std::span<const float>)>& read);

}  // namespace tessera
