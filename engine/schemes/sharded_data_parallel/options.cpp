// SPDX-License-Identifier: Apache-2.0
#include "engine/options/rank_groups_form.h"
#include "engine/schemes/option_lists.h"

namespace tessera {

const OptionList<ShardedDataParallelOptions>& option_list(const ShardedDataParallelOptions&) {
  using O = ShardedDataParallelOptions;
  static const auto list =
      OptionList<O>("FairScale: sharded_data_parallel", {"sharded_data_parallel"})
          .add(&O::reduce_buffer_size,
               {.name = "reduce_buffer_size",
                .help = "Elements of an owner's bucket; 0: every gradient alone",
                .more = "exclusive; what finds no room is reduced alone",
                .unit = "elements",
                .most = 1125899906842624})
          .add(&O::reduce_dtype,
               {.name = "reduce_dtype", .help = "Gradient reduction", .unset = "param_dtype"})
          .add(&O::broadcast_dtype,
               {.name = "broadcast_dtype",
                .help = "Stepped values are rounded to this for their broadcast",
                .more = "all ranks keep the rounded values",
                .unset = "param_dtype"})
          .add(&O::broadcast_buffers,
               {.name = "broadcast_buffers",
                .help = "Off: buffers stay local, instead of rank 0's after a reduction"})
          .add(&O::sync_models_at_startup,
               {.name = "sync_models_at_startup",
                .help = "Off: rank 0's values are not broadcast in the beginning"})
          .add(&O::group_size,
               consecutive_groups("process_group",
                                  "Consecutive ranks that own parameters together; 0: all"))
          .add(&O::groups, any_groups("process_groups"))
          .add(&O::dtype, {.name = "param_dtype",
                           .help = "Parameters, gradients and the optimizer's state",
                           .unset = "own"});
  return list;
}

}  // namespace tessera
