// SPDX-License-Identifier: Apache-2.0
// The full values, or the full gradients, of one unit: where every element lies.
//
// The idea: shards of all schemes are ParamShards, so one layout serves flat and dim-0 sharding:
// rank after rank of the group, and of each rank shard after shard. It is what one all_gather
// leaves behind; parameters are put together from it when somebody looks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/param_shard.h"

namespace tessera {

/// One shard that is part of the copy.
struct FullCopySource {
  View shard;      // of this rank: value or gradient
  View unsharded;  // the scheme's own gathered copy, if there is one
  ShardMap map;
  Numel offset;                    // its place in the rank's part of the copy
  Memory memory = Memory::device;  // where the shard lies
};

struct FullCopy {
  std::string name;  // "L1.summoned"
  std::string_view unit;
  // All sources have the same sharing.
  ShardGroups groups;
  Index own_group = 0;
  std::vector<FullCopySource> sources;
  DType dtype = DType::float32;
  MemoryClass memory_class = MemoryClass::unsharded_parameters;
  Numel rank_part;  // elements of one rank
  BufferId buffer;  // while it exists
  RankSet where;
  Memory memory = Memory::device;

  void add(const ParamShard& shard, const View& part, const View& unsharded) {
    sources.push_back({part, unsharded, shard.map, rank_part, shard.memory});
    rank_part += part.numel;
    dtype = part.dtype;
  }
  /// The source with `parameter`, or nullptr.
  const FullCopySource* find(ParameterId parameter) const {
    for (const FullCopySource& source : sources) {
      if (source.map.holds(parameter)) return &source;
    }
    return nullptr;
  }
};

/// A summoned unit.
struct SummonedUnit {
  FullCopy values;
  FullCopy gradients;           // without sources if there are none now or none are wanted
  bool left_unsharded = false;  // the scheme had left it unsharded, and it stays so
};

}  // namespace tessera
