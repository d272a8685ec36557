// SPDX-License-Identifier: Apache-2.0
// Facts that every part of ZeRO-3 knows and none changes once the engine is made.
#pragma once

#include "engine/schemes/zero3/parameters/policy_rules.h"
#include "tessera/model.h"
#include "tessera/zero3.h"

namespace tessera {

/// Invalid ids mean "not used with these options".
struct Zero3Facts {
  const Model& model;
  const Zero3Options options;
  const PolicyRules rules;
  const Index ranks;        // that hold all partitions together
  const RankGroups groups;  // each trains a model of its own
  const Index everyone;     // in one of them

  StreamId compute, all_gather, reduce;
  StreamId nccl;                           // of all collectives: they share a process group
  StreamId host;                           // where the CPU steps
  CommunicatorId world;                    // those that hold all partitions together
  CommunicatorId replicas;                 // those that hold the same
  CommunicatorId node, secondary, across;  // ZeRO++: inside of nodes, between them

  DType param_dtype() const { return options.param_dtype; }
  DType reduce_dtype() const { return options.reduce_dtype.value_or(options.param_dtype); }
  /// Masters have another dtype than what is gathered.
  bool mixed() const { return param_dtype() != DType::float32; }
  /// Whose members hold different partitions.
  CommunicatorId shard_group() const { return ranks > 1 ? world : CommunicatorId{}; }
  const std::string& name(ParameterId id) const { return model.parameter(id).name; }
};

}  // namespace tessera
