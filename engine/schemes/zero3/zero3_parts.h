// SPDX-License-Identifier: Apache-2.0
// All parts of a ZeRO-3 engine, in the order in which they know each other.
#pragma once

#include <memory>

#include "engine/schemes/zero3/external_parameters.h"
#include "engine/schemes/zero3/offload/partition_home.h"
#include "engine/schemes/zero3/parameters/leaf_modules.h"
#include "engine/schemes/zero3/policy/fetch_policy.h"
#include "engine/schemes/zero3/reduce/partition_update.h"
#include "engine/schemes/zero3/reduce/reduce_bucket.h"
#include "engine/schemes/zero3/reduce/sub_groups.h"

namespace tessera {

struct Zero3Parts {
  /// Both references must outlive it. Nothing is issued yet: see zero3_setup.h.
  Zero3Parts(Operations& operations, const Model& model, const Zero3Options& options,
             const RankGroups& groups);
  Zero3Parts(const Zero3Parts&) = delete;
  Zero3Parts& operator=(const Zero3Parts&) = delete;

  Operations& operations;
  Zero3Facts facts;
  OnDemandParameters parameters;

  // What modules need.
  LeafModules leaves;
  ModuleNeeds needs;
  ExternalParameters external;

  // Where partitions live, and what brings them.
  PartitionHome home;
  SubGroups groups;
  ParameterSwapper swapper;
  OptimizerSwapper states;
  Partitions partitions;
  PartitionUpdate update;

  // Gathering.
  GatheredMemory memory;
  SecondaryParts secondary;
  ParameterMover mover;
  std::unique_ptr<FetchPolicy> policy;

  // Reducing.
  GradientPartitions gradients;
  ReduceBucket bucket;
};

}  // namespace tessera
