// SPDX-License-Identifier: Apache-2.0
#include "engine/options/rank_groups_form.h"
#include "engine/schemes/option_lists.h"

namespace tessera {
namespace {

using O = Zero3Options;

constexpr double size_max = 1125899906842624;  // 2^50
const std::vector<std::string> devices = {"none", "cpu", "nvme"};
const std::vector<OptionNeed> on_nvme = {{"offload_param", {"nvme"}},
                                         {"offload_optimizer", {"nvme"}}};

Option elements(const char* name, const char* help, double least,
                std::vector<std::string> deepspeed) {
  return {.name = name,
          .help = help,
          .unit = "elements",
          .least = least,
          .most = size_max,
          .deepspeed = std::move(deepspeed)};
}

void add_gathering(OptionList<O>& list) {
  list.add(&O::policy, {.name = "policy",
                        .help = "strict: within the budget; compatible: as DeepSpeed 0.9.0",
                        .more = "compatible-0.19: as DeepSpeed 0.19.8",
                        .words = {"strict", "compatible", "compatible-0.19"}})
      .add(&O::live_budget,
           {.name = "live_budget",
            .help = "Bytes that gathered parameters never exceed",
            .more = "auto: by max_live_parameters, or twice what the largest module needs if "
                    "that is more",
            .unit = "bytes",
            .unset = "auto",
            .least = 1,
            .most = 4503599627370496,
            .needs = {{"policy", {"strict"}}}})
      .add(&O::prefetch_bucket,
           elements("prefetch_bucket", "compatible: gather ahead so much at once; 0: do not", 0,
                    {"stage3_prefetch_bucket_size", "prefetch_bucket_size"}));
  Option reuse =
      elements("max_reuse_distance", "Keep parameters that are used again within so many elements",
               0, {"stage3_max_reuse_distance", "max_reuse_distance"});
  reuse.needs = {{"policy", {"compatible", "compatible-0.19"}}};
  list.add(&O::max_reuse_distance, std::move(reuse));
  list.add(&O::max_live_parameters,
           elements("max_live_parameters", "Gather nothing ahead while more than this is gathered",
                    0, {"stage3_max_live_parameters", "max_live_parameters"}));
  list.add(&O::persistence_threshold,
           elements("persistence_threshold", "Parameters of up to so many elements stay gathered",
                    0, {"stage3_param_persistence_threshold", "param_persistence_threshold"}));
  Option together =
      elements("model_persistence_threshold", "As long as they are not more than this together", 0,
               {"stage3_model_persistence_threshold", "model_persistence_threshold"});
  together.most = Option{}.most;
  list.add(&O::model_persistence_threshold, std::move(together));
  list.add(&O::leaf_modules, {.name = "leaf_modules",
                              .help = "Modules, by class or path, gathered with all below them",
                              .more = "*.experts: all whose path ends so"});
  list.add(&O::module_granularity,
           elements("module_granularity",
                    "Gather modules of so few elements per module in them as a whole; 0: none", 0,
                    {"stage3_module_granularity_threshold", "module_granularity_threshold"}));
}

void add_stepping(OptionList<O>& list) {
  list.add(&O::reduce_bucket, elements("reduce_bucket", "Gradients that are reduced together", 0,
                                       {"reduce_bucket_size"}))
      .add(&O::sub_group_size,
           elements("sub_group_size",
                    "Shards that the optimizer steps together; 0: each parameter by itself", 0,
                    {"sub_group_size"}))
      .add(&O::shard_group, {.name = "shard_group",
                             .help = "MiCS: consecutive ranks that shard together; 0: all",
                             .more = "groups add their gradients up once a step",
                             .unit = "ranks",
                             .most = 1'000'000})
      .add(&O::group_size,
           consecutive_groups("process_group",
                              "Consecutive ranks that train one model together; 0: all"))
      .add(&O::groups, any_groups("process_groups"))
      .add(&O::param_dtype,
           {.name = "param_dtype", .help = "Gathered parameters and their gradients"})
      .add(&O::reduce_dtype,
           {.name = "reduce_dtype", .help = "Gradient reduction", .unset = "param_dtype"});
}

void add_plus_plus(OptionList<O>& list) {
  list.add([](auto& o) -> auto& { return o.plus_plus.secondary_group; },
           {.name = "secondary_group",
            .help = "ZeRO++: ranks that backward gathers from; 1: all",
            .more = "what forward gathered is kept in groups of so many neighbours",
            .unit = "ranks",
            .least = 1,
            .most = 1'000'000,
            .deepspeed = {"zero_hpz_partition_size"}})
      .add([](auto& o) -> auto& { return o.plus_plus.quantized_weights; },
           {.name = "quantized_weights",
            .help = "ZeRO++: gather in 8 bit",
            .more = "with a scale per block",
            .deepspeed = {"zero_quantized_weights"}})
      .add([](auto& o) -> auto& { return o.plus_plus.quantized_gradients; },
           {.name = "quantized_gradients",
            .help = "ZeRO++: reduce in 4 bit, inside of nodes and then between them",
            .deepspeed = {"zero_quantized_gradients"}})
      .add([](auto& o) -> auto& { return o.plus_plus.ranks_per_node; },
           {.name = "ranks_per_node",
            .help = "Where quantized_gradients sees the border of a node",
            .unit = "ranks",
            .least = 1,
            .most = 1'000'000,
            .needs = {{"quantized_gradients", {"true"}}}});
}

void add_offload(OptionList<O>& list) {
  list.add([](auto& o) -> auto& { return o.offload_param.device; },
           {.name = "offload_param",
            .help = "Where partitions of parameters live",
            .more = "cpu: pinned host memory, nvme: files; persistent ones stay on the device",
            .words = devices,
            .deepspeed = {"offload_param.device"}})
      .add([](auto& o) -> auto& { return o.offload_optimizer.device; },
           {.name = "offload_optimizer",
            .help = "Where the optimizer's states and gradients live, and who steps",
            .more = "the CPU steps what is offloaded; nvme: gradients stay in host memory",
            .words = devices,
            .deepspeed = {"offload_optimizer.device"}})
      .add([](auto& o) -> auto& { return o.offload_optimizer.ratio; },
           {.name = "offload_ratio",
            .help = "Share of the sub-groups that is offloaded",
            .more = "the first ones stay on the device and are stepped there at the same time",
            .most = 1,
            .needs = {{"offload_optimizer", {"cpu", "nvme"}}},
            .deepspeed = {"offload_optimizer.ratio"}})
      .add([](auto& o) -> auto& { return o.offload_param.nvme_path; },
           {.name = "nvme_path",
            .help = "Folder for files on NVMe; only runs with real numbers write there",
            .needs = on_nvme,
            .deepspeed = {"offload_param.nvme_path"},
            .only_real = true})
      .add([](auto& o) -> auto& { return o.offload_optimizer.nvme_path; },
           {.name = "optimizer_nvme_path",
            .help = "Another one for the optimizer's states",
            .needs = {{"offload_optimizer", {"nvme"}}},
            .deepspeed = {"offload_optimizer.nvme_path"},
            .only_real = true})
      .add([](auto& o) -> auto& { return o.offload_param.buffer_count; },
           {.name = "buffer_count",
            .help = "Buffers between NVMe and what is gathered",
            .more = "in host memory, or on the device with use_gds",
            .most = 1e6,
            .needs = {{"offload_param", {"nvme"}}},
            .deepspeed = {"offload_param.buffer_count"}})
      .add([](auto& o) -> auto& { return o.offload_param.buffer_size; },
           {.name = "buffer_size",
            .help = "Elements of such a buffer: the largest partition must fit",
            .unit = "elements",
            .least = 1,
            .most = 1e15,
            .needs = {{"offload_param", {"nvme"}}},
            .deepspeed = {"offload_param.buffer_size"}})
      .add([](auto& o) -> auto& { return o.offload_optimizer.buffer_count; },
           {.name = "optimizer_buffer_count",
            .help = "Buffers between NVMe and the optimizer's step",
            .most = 1e6,
            .needs = {{"offload_optimizer", {"nvme"}}},
            .deepspeed = {"offload_optimizer.buffer_count"}})
      .add([](auto& o) -> auto& { return o.offload_optimizer.pipeline_read; },
           {.name = "pipeline_read",
            .help = "Read the next sub-group's states from NVMe while one is stepped",
            .needs = {{"offload_optimizer", {"nvme"}}},
            .deepspeed = {"offload_optimizer.pipeline_read"}})
      .add([](auto& o) -> auto& { return o.offload_optimizer.pipeline_write; },
           {.name = "pipeline_write",
            .help = "Write a sub-group's states to NVMe while the next one is stepped",
            .needs = {{"offload_optimizer", {"nvme"}}},
            .deepspeed = {"offload_optimizer.pipeline_write"}});
}

void add_files(OptionList<O>& list) {
  list.add([](auto& o) -> auto& { return o.aio.smallest; },
           {.name = "nvme_smallest",
            .help = "Bytes; smaller partitions stay in host memory",
            .unit = "bytes",
            .most = 1e15,
            .needs = on_nvme})
      .add([](auto& o) -> auto& { return o.aio.alignment; },
           {.name = "nvme_alignment",
            .help = "Bytes that files are read and written by",
            .unit = "bytes",
            .least = 1,
            .most = 1e9,
            .needs = on_nvme})
      .add([](auto& o) -> auto& { return o.aio.block_size; },
           {.name = "aio_block_size",
            .help = "Bytes of one request to a file",
            .unit = "bytes",
            .least = 1,
            .most = 1e15,
            .needs = on_nvme,
            .deepspeed = {"aio.block_size"},
            .only_real = true})
      .add([](auto& o) -> auto& { return o.aio.queue_depth; },
           {.name = "aio_queue_depth",
            .help = "Requests to a file at once",
            .least = 1,
            .most = 1e6,
            .needs = on_nvme,
            .deepspeed = {"aio.queue_depth"},
            .only_real = true})
      .add([](auto& o) -> auto& { return o.aio.thread_count; },
           {.name = "aio_thread_count",
            .help = "Threads that read and write files",
            .least = 1,
            .most = 4096,
            .needs = on_nvme,
            .deepspeed = {"aio.thread_count", "aio.intra_op_parallelism"},
            .only_real = true})
      .add([](auto& o) -> auto& { return o.aio.use_gds; },
           {.name = "use_gds",
            .help = "Read parameters from NVMe straight into device memory (GPUDirect Storage)",
            .more = "and write there what the device steps; on GPUs it needs NVIDIA's cuFile",
            .needs = {{"offload_param", {"nvme"}}},
            .deepspeed = {"aio.use_gds"}});
}

}  // namespace

const OptionList<Zero3Options>& option_list(const Zero3Options&) {
  static const auto list = [] {
    OptionList<O> all("ZeRO-3: zero3 (sizes in elements)", {"zero3"});
    add_gathering(all);
    add_stepping(all);
    add_plus_plus(all);
    add_offload(all);
    add_files(all);
    return all;
  }();
  return list;
}

}  // namespace tessera
