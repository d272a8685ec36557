// SPDX-License-Identifier: Apache-2.0
#include "tessera/device_mesh.h"

#include <catch2/catch.hpp>

namespace tessera {
namespace {

TEST_CASE("a 2-D mesh shards between neighbours and replicates across", "[mesh]") {
  const auto mesh = DeviceMesh::create(6, {{"replicate", 2}, {"shard", 3}});
  REQUIRE(mesh.ok());
  CHECK(mesh->size("shard") == 3);
  CHECK(mesh->size("replicate") == 2);
  CHECK(mesh->size("tensor") == 1);
  const auto shard = mesh->groups("shard");
  const auto replicate = mesh->groups("replicate");
  REQUIRE(shard.ok());
  REQUIRE(replicate.ok());
  CHECK(shard->group_count() == 2);
  CHECK(shard->member(1, 0) == 3);
  CHECK(shard->member(1, 2) == 5);
  CHECK(replicate->group_count() == 3);
  CHECK(replicate->member(1, 0) == 1);
  CHECK(replicate->member(1, 1) == 4);
  for (Rank r = 0; r < 6; ++r) {
    CHECK(mesh->index("shard", r) == shard->index_of(r));
    CHECK(mesh->index("replicate", r) == replicate->index_of(r));
  }
}

TEST_CASE("a mesh for sharding has one dimension, or two with a group", "[mesh]") {
  CHECK(DeviceMesh::sharding(8, 0)->dimensions().size() == 1);
  CHECK(DeviceMesh::sharding(8, 8)->dimensions().size() == 1);
  CHECK(DeviceMesh::sharding(8, 2)->size("replicate") == 4);
  CHECK(DeviceMesh::sharding(8, 3).status().message() == "shard_group 3 does not divide 8 ranks");
  CHECK_FALSE(DeviceMesh::sharding(8, -1).ok());
}

TEST_CASE("meshes that cannot be are refused", "[mesh][errors]") {
  auto message = [](const auto& result) { return result.status().message(); };
  CHECK(message(DeviceMesh::create(8, {{"a", 3}})) ==
        "the mesh's dimensions multiply to 3, but there are 8 ranks");
  CHECK(message(DeviceMesh::create(4, {{"a", 2}, {"a", 2}})) == "two mesh dimensions are named a");
  CHECK(message(DeviceMesh::create(4, {{"a", 0}})) ==
        "mesh dimension a has size 0, needs at least 1");
  CHECK(message(DeviceMesh::create(4, {{"a", 4}})->groups("b")) ==
        "the mesh has no dimension b, it has a");
}

}  // namespace
}  // namespace tessera
