// SPDX-License-Identifier: Apache-2.0
// What the scheme's options and a plan's overrides say together of each unit: mesh, dtypes, memory,
// and when it is freed.
#include <fmt/format.h>

#include "engine/schemes/fully_shard/fully_shard_engine.h"

namespace tessera {

// With several meshes shards say themselves how the world shares them, and a norm of gradients is
// the world's sum.
Status FullyShardEngine::share_by_units() {
  bool several = false;
  for (std::size_t u = 0; u < assignment_.units.size(); ++u) {
    const auto own = overrides(u).shard_group;
    const Index size =
        own.value_or(main_.size) == 0 ? mesh_.world_size() : own.value_or(main_.size);
    several |= size != main_.size;
  }
  if (!several) return {};
  meshes_[main_.size] = main_;
  TESSERA_ASSIGN(const auto world, RankGroups::strided(mesh_.world_size(), mesh_.world_size()));
  TESSERA_ASSIGN(norm_group_, runtime_.create_communicator(world, "norm"));
  for (ParamShard* local : locals_.shards()) local->groups = ShardGroups{};
  return {};
}

Result<UnitMesh> FullyShardEngine::mesh_of(Index shard_group) {
  if (meshes_.empty()) return main_;
  TESSERA_ASSIGN(const DeviceMesh mesh, DeviceMesh::sharding(mesh_.world_size(), shard_group));
  const Index size = mesh.size("shard");
  if (const auto known = meshes_.find(size); known != meshes_.end()) return known->second;
  UnitMesh made{.size = size, .replicas = mesh.size("replicate")};
  TESSERA_ASSIGN(const auto shards, mesh.groups("shard"));
  TESSERA_ASSIGN(made.shard, runtime_.create_communicator(shards, fmt::format("shard_{}", size)));
  if (made.replicas > 1) {
    TESSERA_TRY(create_all_reduce_streams());
    TESSERA_ASSIGN(const auto replicas, mesh.groups("replicate"));
    TESSERA_ASSIGN(made.replicate,
                   runtime_.create_communicator(replicas, fmt::format("replicate_{}", size)));
  }
  return meshes_[size] = made;
}

Status FullyShardEngine::settings_of(std::size_t index, Unit& unit) {
  const UnitOverrides& own = overrides(index);
  unit.mesh = main_;
  if (own.shard_group) {
    Result<UnitMesh> mesh = mesh_of(*own.shard_group);
    if (!mesh.ok()) {
      return Status(mesh.status().code(),
                    fmt::format("unit {}: {}", unit.name, mesh.status().message()));
    }
    unit.mesh = *mesh;
  }
  const bool mixed = own.mixed_precision.value_or(true);
  unit.param_dtype =
      own.param_dtype.value_or(mixed ? options_.param_dtype : options_.sharded_dtype);
  unit.reduce_dtype =
      own.reduce_dtype.value_or(mixed ? options_.reduce_dtype : options_.sharded_dtype);
  unit.offload = own.offload_params.value_or(options_.offload_params);
  return reshard_settings_of(index, unit);
}

Status FullyShardEngine::reshard_settings_of(std::size_t index, Unit& unit) {
  const UnitOverrides& own = overrides(index);
  const auto when = options_.reshard_after_forward;
  const bool root = trees_[unit.tree].root == index;
  const Index k = own.reshard_group.value_or(options_.reshard_group);
  if ((k > 0 && k < unit.mesh.size && unit.mesh.size % k != 0) ||
      (own.reshard_group && k > unit.mesh.size)) {
    return Status(Code::invalid_argument,
                  fmt::format("unit {}: reshard_group {} must divide the {} ranks that shard it",
                              unit.name, k, unit.mesh.size));
  }
  unit.reshard_after_forward =
      when == ReshardAfterForward::always || (when == ReshardAfterForward::automatic && !root);
  // torch's replicate: nothing is gathered again, so nothing is gained in time.
  if (own.shard_group && unit.mesh.size == 1) unit.reshard_after_forward = false;
  // A group of one rank keeps everything, a group of all keeps what it holds anyway.
  if (own.reshard_group || when == ReshardAfterForward::to_group) {
    unit.reshard_after_forward = k > 1 || (k == 0 && !root);
  }
  unit.reshard_after_forward = own.reshard_after_forward.value_or(unit.reshard_after_forward);
  if (k <= 1 || k >= unit.mesh.size) return {};
  unit.reshards_to_group = true;
  unit.reshard_group = k;
  CommunicatorId& group = post_forward_groups_[k];
  if (!group.valid()) {
    TESSERA_ASSIGN(const auto smaller, RankGroups::strided(mesh_.world_size(), k));
    TESSERA_ASSIGN(group, runtime_.create_communicator(smaller, fmt::format("post_forward_{}", k)));
  }
  unit.post_forward_group = group;
  return {};
}

}  // namespace tessera
