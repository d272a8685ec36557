// SPDX-License-Identifier: Apache-2.0
#include "tessera/device_mesh.h"

#include <fmt/format.h>

#include "tessera/assert.h"

namespace tessera {

Result<DeviceMesh> DeviceMesh::create(Rank world_size, std::vector<MeshDimension> dimensions) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    const MeshDimension& d = dimensions[k];
    if (d.size < 1) {
      return Status(Code::invalid_argument,
                    fmt::format("mesh dimension {} has size {}, needs at least 1", d.name, d.size));
    }
    for (std::size_t other = 0; other < k; ++other) {
      if (dimensions[other].name != d.name) continue;
      return Status(Code::invalid_argument,
                    fmt::format("two mesh dimensions are named {}", d.name));
    }
    product *= d.size;
    if (product > world_size) break;
  }
  if (product != world_size) {
    return Status(Code::invalid_argument,
                  fmt::format("the mesh's dimensions multiply to {}{}, but there are {} ranks",
                              product > world_size ? "at least " : "", product, world_size));
  }
  DeviceMesh mesh;
  mesh.world_size_ = world_size;
  mesh.dimensions_ = std::move(dimensions);
  return mesh;
}

Result<DeviceMesh> DeviceMesh::sharding(Rank world_size, Index shard_group) {
  if (shard_group == 0 || shard_group == world_size)
    return create(world_size, {{"shard", world_size}});
  if (shard_group < 0 || world_size % shard_group != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("shard_group {} does not divide {} ranks", shard_group, world_size));
  }
  return create(world_size, {{"replicate", world_size / shard_group}, {"shard", shard_group}});
}

const MeshDimension* DeviceMesh::find(std::string_view name, Rank& stride) const {
  stride = 1;
  for (auto d = dimensions_.rbegin(); d != dimensions_.rend(); ++d) {
    if (d->name == name) return &*d;
    stride *= d->size;
  }
  return nullptr;
}

Index DeviceMesh::size(std::string_view dimension) const {
  Rank stride = 1;
  const MeshDimension* d = find(dimension, stride);
  return d == nullptr ? 1 : d->size;
}

Result<RankGroups> DeviceMesh::groups(std::string_view dimension) const {
  Rank stride = 1;
  const MeshDimension* d = find(dimension, stride);
  if (d != nullptr) return RankGroups::strided(world_size_, d->size, stride);
  std::string names;
  for (const MeshDimension& known : dimensions_) names += (names.empty() ? "" : ", ") + known.name;
  return Status(Code::invalid_argument,
                fmt::format("the mesh has no dimension {}, it has {}", dimension, names));
}

Index DeviceMesh::index(std::string_view dimension, Rank rank) const {
  Rank stride = 1;
  const MeshDimension* d = find(dimension, stride);
  TESSERA_ASSERT(d != nullptr, "a dimension of the mesh");
  return rank / stride % d->size;
}

}  // namespace tessera
