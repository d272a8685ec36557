// SPDX-License-Identifier: Apache-2.0
// Per-parameter dim-0 sharding: which rows of a parameter a rank holds, and where they lie in its
// unit's communication buffers.
//
// The idea: rank i of n holds rows [i * ceil(d0 / n), ...) of every parameter, padded to ceil(d0 /
// n) rows, so that all shards are equal and a gathered parameter is the concatenation of its
// shards. Rule: torch FSDPParam._init_sharded_param (torch.chunk on dim 0, zero padding).
#pragma once

#include <optional>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct ShardedParameter {
  ParameterId id;
  Numel numel{};   // unsharded, without padding
  Numel shard{};   // elements per rank, padding included
  Numel offset{};  // in the rank's part of the unit's buffers
  /// The place of its gradient in the rank's part of the buffers of gradients; frozen ones have
  /// none.
  std::optional<Numel> gradient;
};

struct UnitLayout {
  std::vector<ShardedParameter> parameters;
  Numel shard{};    // elements per rank of the whole unit
  Numel trained{};  // the same of what has gradients
  Numel numel{};    // unsharded, without padding
  Numel padding{};  // over all ranks
};

/// Fails: invalid_argument, for a parameter without dimensions, naming it.
Result<UnitLayout> dim0_layout(const Model& model, const std::vector<ParameterId>& parameters,
                               Index group_size);

}  // namespace tessera
