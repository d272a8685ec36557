// SPDX-License-Identifier: Apache-2.0
// A sharding scheme with its options as one value, for programs that let their users choose.
//
//   Scheme scheme = Fsdp1Options{.strategy = ShardingStrategy::shard_grad_op};
//   TESSERA_ASSIGN(auto engine, make_engine(runtime, model, scheme));
//   name_of(scheme);                                    // "shard_grad_op"
#pragma once

#include <utility>
#include <variant>

#include "tessera/fsdp1.h"
#include "tessera/fully_shard.h"
#include "tessera/replicate.h"
#include "tessera/sharded_data_parallel.h"
#include "tessera/zero12.h"
#include "tessera/zero3.h"

namespace tessera {

using Scheme = std::variant<FullyShardOptions, Fsdp1Options, ReplicateOptions,
                            ShardedDataParallelOptions, Zero12Options, Zero3Options>;

/// As `fully_shard`, `fsdp1`, `replicate`, `sharded_data_parallel`, `zero12` or `zero3`.
Result<std::unique_ptr<Engine>> make_engine(Runtime& runtime, const Model& model,
                                            const Scheme& scheme);

/// "fully_shard", the strategy of FSDP1 ("full_shard", ...), "replicate", "sharded_data_parallel",
/// "zero1", "zero2", "zero3".
std::string_view name_of(const Scheme& scheme);
std::string_view name_of(ShardingStrategy strategy);

/// The dtype of forward and backward.
DType compute_dtype(const Scheme& scheme);

/// Every option as name and value, so that a trace says how to make it again.
std::vector<std::pair<std::string, std::string>> options_of(const Scheme& scheme);

}  // namespace tessera
