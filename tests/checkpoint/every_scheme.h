// SPDX-License-Identifier: Apache-2.0
// Schemes that a checkpoint goes out of and into, with sizes that divide nothing.
#pragma once

#include <string>
#include <vector>

#include "tessera/scheme.h"

namespace tessera::test {

/// `units`: modules of the model.
inline std::vector<Scheme> every_scheme(const std::vector<std::string>& units, Rank ranks) {
  const Index half = ranks % 2 == 0 ? static_cast<Index>(ranks / 2) : 1;
  using Strategy = ShardingStrategy;
  Zero3Options offloaded{.prefetch_bucket = Numel{20}, .reduce_bucket = Numel{25}};
  offloaded.sub_group_size = Numel{20};
  offloaded.offload_optimizer.device = Offload::Device::cpu;
  offloaded.offload_param.device = Offload::Device::cpu;
  Zero3Options secondary{.reduce_bucket = Numel{25}};
  secondary.plus_plus.secondary_group = half;
  return {FullyShardOptions{.units = units},
          FullyShardOptions{.units = units, .shard_group = half},
          FullyShardOptions{.units = units, .offload_params = true},
          Fsdp1Options{.units = units, .use_orig_params = true},
          Fsdp1Options{.units = units,
                       .strategy = Strategy::shard_grad_op,
                       .use_orig_params = true,
                       .offload_params = true},
          Fsdp1Options{.strategy = Strategy::no_shard, .use_orig_params = true},
          Fsdp1Options{.units = units,
                       .strategy = Strategy::hybrid_shard,
                       .shard_group = half,
                       .use_orig_params = true},
          ReplicateOptions{.bucket_cap = Bytes{100}, .first_bucket_cap = Bytes{60}},
          ShardedDataParallelOptions{.reduce_buffer_size = Numel{30}},
          Zero12Options{.stage = 1, .reduce_bucket = Numel{25}},
          Zero12Options{.stage = 2, .allgather_bucket = Numel{20}, .overlap_comm = true},
          Zero3Options{.prefetch_bucket = Numel{20}, .reduce_bucket = Numel{25}},
          offloaded,
          secondary};
}

}  // namespace tessera::test
