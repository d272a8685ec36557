// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/option_lists.h"

namespace tessera {

const OptionList<Zero12Options>& option_list(const Zero12Options&) {
  using O = Zero12Options;
  static const auto list =
      OptionList<O>("ZeRO-1 and ZeRO-2: zero1, zero2 (sizes in elements)", {"zero1", "zero2"})
          .add(&O::reduce_bucket, {.name = "reduce_bucket",
                                   .help = "Gradients that are reduced together",
                                   .unit = "elements",
                                   .most = 1125899906842624,
                                   .deepspeed = {"reduce_bucket_size"}})
          .add(&O::allgather_bucket, {.name = "allgather_bucket",
                                      .help = "Stepped parameters that are gathered together, even",
                                      .unit = "elements",
                                      .most = 1125899906842624,
                                      .deepspeed = {"allgather_bucket_size", "allgather_size"}})
          .add(&O::overlap_comm,
               {.name = "overlap_comm",
                .help = "Reduce while backward goes on",
                .more = "on a stream of their own, with two buckets that are used in turn",
                .schemes = {"zero2"},
                .deepspeed = {"overlap_comm"}})
          .add(&O::reduce_scatter, {.name = "reduce_scatter",
                                    .help = "Off: every rank gets every gradient's mean",
                                    .more = "twice the volume",
                                    .deepspeed = {"reduce_scatter"},
                                    .flag = "--reduce-by-all-reduce"})
          .add(&O::round_robin_gradients,
               {.name = "round_robin_gradients",
                .help = "Gradients that are ready in a row have different owners",
                .schemes = {"zero2"},
                .deepspeed = {"round_robin_gradients"}})
          .add([](auto& o) -> auto& { return o.offload_optimizer.device; },
               {.name = "offload_optimizer",
                .help = "Where masters and states live and who steps: the device, or the CPU",
                .more = "ZeRO-Offload: gradients are copied to host memory as buckets are reduced",
                .words = {"none", "cpu", "nvme"},
                .deepspeed = {"offload_optimizer.device"}})
          .add(&O::param_dtype, {.name = "param_dtype", .help = "Parameters and gradients"})
          .add(&O::reduce_dtype,
               {.name = "reduce_dtype", .help = "Gradient reduction", .unset = "param_dtype"});
  return list;
}

}  // namespace tessera
