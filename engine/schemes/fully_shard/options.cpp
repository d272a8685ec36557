// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/option_lists.h"

namespace tessera {

const OptionList<FullyShardOptions>& option_list(const FullyShardOptions&) {
  using O = FullyShardOptions;
  static const auto list =
      OptionList<O>("FSDP2: fully_shard", {"fully_shard"})
          .add(&O::units, {.name = "units",
                           .help = "Module paths that become sharding units",
                           .more = "the root always is one; without any the model's blocks are"})
          .add(
              &O::plain_root,
              {.name = "plain_root",
               .help = "Make a root of each unit in no other unit, and no unit of the model's root",
               .more = "as where fully_shard is called on parts alone; parameters outside stay "
                       "whole on every rank and are not reduced"})
          .add(&O::reshard_after_forward,
               {.name = "reshard_after_forward",
                .help = "Free gathered parameters after forward",
                .more = "auto: all units but the root; to_group: keep shards of a smaller group "
                        "(torch's integer)",
                .words = {"auto", "always", "never", "to_group"}})
          .add(&O::reshard_group, {.name = "reshard_group",
                                   .help = "Ranks of the smaller group that gathers in backward",
                                   .unit = "ranks",
                                   .needs = {{"reshard_after_forward", {"to_group"}}}})
          .add(&O::shard_group, {.name = "shard_group",
                                 .help = "Hybrid: consecutive ranks that shard together; 0: all",
                                 .more = "replicas between them",
                                 .unit = "ranks"})
          .add(&O::sharded_dtype, {.name = "sharded_dtype",
                                   .help = "Shards, their gradients and the optimizer's state"})
          .add(&O::param_dtype,
               {.name = "param_dtype", .help = "Gathered parameters and their gradients"})
          .add(&O::reduce_dtype, {.name = "reduce_dtype", .help = "Gradient reduction"})
          .add(&O::gradient_divide_factor,
               {.name = "gradient_divide_factor",
                .help = "Gradients are divided by this instead of the number of ranks",
                .unset = "ranks",
                .least = 1e-6,
                .most = 1e30,
                .only_real = true})
          .add(&O::offload_params,
               {.name = "offload_params",
                .help = "Keep shards, their gradients and the optimizer's state in host memory"})
          .add(&O::reduce_scatter_max_input_buffers,
               {.name = "max_input_buffers",
                .help = "Inputs of reduce_scatters that may be alive at once",
                .more = "before the compute stream waits for the oldest",
                .least = 1});
  return list;
}

}  // namespace tessera
