// SPDX-License-Identifier: Apache-2.0
// Ranks as a grid: each dimension's process groups have a name and cost three numbers.
//
// The idea: row-major, the last dimension varies fastest, so that its groups are neighbours and fit
// into a node. Sharding inside nodes and replicating between them is the 2-D mesh
// {"replicate", nodes} x {"shard", gpus_per_node}.
//
//   TESSERA_ASSIGN(auto mesh, DeviceMesh::create(64, {{"replicate", 8}, {"shard", 8}}));
//   TESSERA_ASSIGN(auto groups, mesh.groups("shard"));   // {0..7}, {8..15}, ...
//
// torch.distributed.device_mesh.DeviceMesh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/rank_set.h"

namespace tessera {

struct MeshDimension {
  std::string name;
  Index size = 1;
};

class DeviceMesh {
 public:
  /// Fails: invalid_argument, unless the sizes are positive and their product is world_size, and
  /// names differ.
  static Result<DeviceMesh> create(Rank world_size, std::vector<MeshDimension> dimensions);

  /// 1-D, or 2-D {"replicate", world_size / shard_group} x {"shard", shard_group}. 0: 1-D.
  /// Fails: invalid_argument, unless shard_group divides world_size.
  static Result<DeviceMesh> sharding(Rank world_size, Index shard_group);

  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  Rank world_size() const { return world_size_; }
  /// Ranks per group of the dimension, 1 if there is none of that name.
  Index size(std::string_view dimension) const;
  /// The groups along a dimension: ranks that differ only in it. Fails: invalid_argument, if there
  /// is none of that name.
  Result<RankGroups> groups(std::string_view dimension) const;
  /// The place of `rank` in its group of the dimension. REQUIRES: there is one of that name.
  Index index(std::string_view dimension, Rank rank) const;

 private:
  const MeshDimension* find(std::string_view name, Rank& stride) const;

  Rank world_size_ = 1;
  std::vector<MeshDimension> dimensions_;
};

}  // namespace tessera
