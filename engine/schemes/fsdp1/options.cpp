// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/option_lists.h"

namespace tessera {
namespace {

// no_shard gathers nothing, and what stays gathered until backward is not gathered for it.
const std::vector<std::string> gathering = {"full_shard", "shard_grad_op", "hybrid_shard",
                                            "hybrid_shard_zero2"};
const std::vector<std::string> gathering_again = {"full_shard", "hybrid_shard"};
const std::vector<std::string> hybrid = {"hybrid_shard", "hybrid_shard_zero2"};

}  // namespace

const OptionList<Fsdp1Options>& option_list(const Fsdp1Options&) {
  using O = Fsdp1Options;
  static const auto list =
      OptionList<O>(
          "FSDP1: full_shard, shard_grad_op, no_shard, hybrid_shard[_zero2]",
          {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"})
          .add(&O::units, {.name = "units",
                           .help = "Module paths that become sharding units",
                           .more = "the root always is one; without any the model's blocks are"})
          .add(&O::shard_group, {.name = "shard_group",
                                 .help = "Hybrid: consecutive ranks that shard together",
                                 .more = "replicas between them",
                                 .unit = "ranks",
                                 .schemes = hybrid})
          .add(&O::backward_prefetch,
               {.name = "backward_prefetch",
                .help = "Gather the next unit before this one's backward, after it, or not early",
                .words = {"none", "pre", "post"},
                .schemes = gathering_again})
          .add(&O::forward_prefetch,
               {.name = "forward_prefetch",
                .help = "Gather early in forward, too, from the second step on",
                .schemes = gathering})
          .add(&O::limit_all_gathers, {.name = "limit_all_gathers",
                                       .help = "Off: the host is never held back before it gathers",
                                       .more = "on: until the second last free",
                                       .schemes = gathering})
          .add(&O::use_orig_params,
               {.name = "use_orig_params",
                .help = "Align parameters to 16 bytes; trained and frozen ones may share a unit"})
          .add(&O::original_dtype, {.name = "sharded_dtype",
                                    .help = "Shards, their gradients and the optimizer's state"})
          .add(&O::param_dtype, {.name = "param_dtype",
                                 .help = "Gathered parameters and their gradients",
                                 .unset = "sharded_dtype"})
          .add(&O::reduce_dtype,
               {.name = "reduce_dtype", .help = "Gradient reduction", .unset = "param_dtype"})
          .add(&O::keep_low_precision_grads,
               {.name = "keep_low_precision_grads",
                .help = "Reduced gradients keep the dtype of the reduction"})
          .add(&O::offload_params,
               {.name = "offload_params",
                .help = "Keep shards, their gradients and the optimizer's state in host memory"})
          .add(&O::torch_1_13, {.name = "torch_1_13",
                                .help = "Prefetch forward from the root only, as PyTorch 1.13 did",
                                .schemes = gathering,
                                .needs = {{"forward_prefetch", {"true"}}}})
          .add(&O::torch_order,
               {.name = "torch_order",
                .help = "PyTorch's order of operations alone, with nothing to bound gradients",
                .more = "off: compute waits for a unit's reduction before it reduces the next",
                .schemes = gathering});
  return list;
}

}  // namespace tessera
