// SPDX-License-Identifier: Apache-2.0
// FSDP2: per-parameter dim-0 sharding, one coalesced all_gather and one reduce_scatter per unit.
//
// The idea: no record_stream and no limiter that stops the host. A buffer is released after an
// event that its consumers are known to follow, so memory reuse is decided by order alone.
//
//   FullyShardOptions options{.param_dtype = DType::bfloat16, .reduce_dtype = DType::float32};
//   TESSERA_ASSIGN(auto engine, fully_shard(runtime, model, options));
//
// Behaviour: torch.distributed.fsdp.fully_shard (FSDPParamGroup, FSDPState), default settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/engine.h"

namespace tessera {

enum class ReshardAfterForward : std::uint8_t {
  automatic,  // all units but the root (torch's None)
  always,     // torch's True
  never,      // torch's False
};

struct FullyShardOptions {
  /// Paths of the modules that become units; the root always is one. Empty: the model's blocks.
  std::vector<std::string> units;
  ReshardAfterForward reshard_after_forward = ReshardAfterForward::automatic;
  DType sharded_dtype = DType::float32;  // shards, their gradients and optimizer state
  DType param_dtype = DType::float32;    // gathered parameters and their gradients
  DType reduce_dtype = DType::float32;   // reduce_scatter
};

/// Shards `model` over all ranks of `runtime` and allocates the shards. Both must outlive the
/// engine. Fails: invalid_argument (a unit that is no module, nested or repeated; a parameter
/// without dimensions), naming it; out_of_memory.
Result<std::unique_ptr<Engine>> fully_shard(Runtime& runtime, const Model& model,
                                            const FullyShardOptions& options);

}  // namespace tessera
