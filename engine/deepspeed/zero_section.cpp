// SPDX-License-Identifier: Apache-2.0
// `zero_optimization` (deepspeed/runtime/zero/config.py, offload_config.py).
#include <fmt/format.h>

#include <algorithm>

#include "engine/deepspeed/sections.h"

namespace tessera {
namespace {

using Device = DeepSpeedOffload::Device;

void check_path(ConfigObject& section, const DeepSpeedOffload& offload) {
  if (offload.device == Device::nvme && offload.nvme_path.empty()) {
    section.fail("nvme_path", "is missing: device nvme needs a folder");
  }
}

constexpr std::string_view always_pinned = "host memory always is pinned here";

void read_offload(ConfigObject& zero, Zero3Options& o) {
  ConfigObject param = zero.object("offload_param");
  read_options(param, "offload_param.", o);
  param.without_meaning({"max_in_cpu"}, "nothing stays in host memory that nvme is to hold");
  param.without_meaning({"pin_memory"}, always_pinned);
  check_path(param, o.offload_param);
  param.finish();
  ConfigObject optimizer = zero.object("offload_optimizer");
  read_options(optimizer, "offload_optimizer.", o);
  optimizer.without_meaning({"pin_memory"}, always_pinned);
  optimizer.without_meaning({"fast_init"}, "states are written once, when they are made");
  optimizer.without_meaning({"pipeline", "super_offload", "cpuadam_cores_perc"});
  check_path(optimizer, o.offload_optimizer);
  optimizer.finish();
  // From before there were sections for it.
  if (zero.boolean({"cpu_offload_param"}).value_or(false)) o.offload_param.device = Device::cpu;
  if (zero.boolean({"cpu_offload"}).value_or(false)) o.offload_optimizer.device = Device::cpu;
  zero.without_meaning({"cpu_offload_use_pin_memory"}, always_pinned);
}

void check_offload(ConfigObject& zero, std::int32_t stage, const Zero3Options& o) {
  if (stage != 3 && o.offload_param.device != Device::none) {
    zero.fail("offload_param", fmt::format("is for stage 3, found stage {}", stage));
  }
  if (stage != 3 && o.offload_optimizer.ratio < 1) {
    zero.fail("offload_optimizer.ratio",
              fmt::format("below 1 is for stage 3, found stage {}", stage));
  }
}

Zero3Options read_stage3(ConfigObject& zero) {
  Zero3Options o;
  read_options(zero, "", o);
  // -1: MiCS is off.
  const std::int64_t mics = zero.integer({"mics_shard_size"}, -1, 1'000'000).value_or(-1);
  o.shard_group = static_cast<Index>(std::max<std::int64_t>(mics, 0));
  return o;
}

Zero12Options read_stages12(ConfigObject& zero, std::int32_t stage) {
  Zero12Options o{.stage = stage};
  read_options(zero, "", o);
  if (o.allgather_bucket.value % 2 != 0) {
    zero.fail("allgather_bucket_size",
              fmt::format("must be a multiple of 2, found {}", o.allgather_bucket.value));
  }
  return o;
}

// Keys of stages that were not chosen.
void list_other_stages(ConfigObject& zero, std::int32_t stage) {
  const auto& stage3 = option_list(Zero3Options{}).options();
  const auto& stages12 = option_list(Zero12Options{}).options();
  const auto list_beside = [&](const std::vector<Option>& others,
                               const std::vector<Option>& chosen) {
    for (const Option& other : others) {
      const bool shared = std::any_of(chosen.begin(), chosen.end(), [&](const Option& option) {
        return option.deepspeed == other.deepspeed;
      });
      if (!shared && other.name != "overlap_comm") zero.without_meaning(other);
    }
  };
  if (stage == 0) list_beside(stage3, {});
  if (stage == 1 || stage == 2) list_beside(stage3, stages12);
  if (stage == 3) list_beside(stages12, stage3);
  if (stage == 0) list_beside(stages12, stage3);
  if (stage != 3) zero.without_meaning({"mics_shard_size"});
  // Stage 3 overlaps always.
  if (stage == 0 || (stage == 3 && !zero.boolean({"overlap_comm"}).value_or(true))) {
    zero.without_meaning({"overlap_comm"});
  }
  // What is kept of these is not used yet.
  if (stage != 3) zero.without_meaning({"offload_optimizer", "cpu_offload"});
}

}  // namespace

void read_zero(ConfigObject& root, DeepSpeedConfig& config, Zero3Options& offloading) {
  const nlohmann::json* value = root.value({"zero_optimization"});
  if (value != nullptr && value->is_boolean()) {  // deprecated
    config.stage = value->get<bool>() ? 1 : 0;
    value = nullptr;
  }
  ConfigObject zero = root.object("zero_optimization", value);
  config.stage = static_cast<std::int32_t>(zero.integer({"stage"}, 0, 3).value_or(config.stage));
  if (config.stage == 0) config.scheme = ReplicateOptions{};
  if (config.stage == 1 || config.stage == 2) config.scheme = read_stages12(zero, config.stage);
  if (config.stage == 3) config.scheme = read_stage3(zero);
  list_other_stages(zero, config.stage);
  read_offload(zero, offloading);
  check_offload(zero, config.stage, offloading);
  zero.without_meaning({"contiguous_gradients",
                        "allgather_partitions",
                        "load_from_fp32_weights",
                        "elastic_checkpoint",
                        "legacy_stage1",
                        "ignore_unused_parameters",
                        "memory_efficient_linear",
                        "pipeline_loading_checkpoint",
                        "override_module_apply",
                        "log_trace_cache_warnings",
                        "enable_sanity_checks",
                        "leaf_module",
                        "zeropp_loco_param",
                        "stage3_gather_16bit_weights_on_model_save",
                        "gather_16bit_weights_on_model_save",
                        "stage3_gather_fp16_weights_on_model_save",
                        "stage3_module_granularity_threshold",
                        "module_granularity_threshold",
                        "stage3_use_all_reduce_for_fetch_params",
                        "use_all_reduce_for_fetch_params",
                        "stage3_allgather_sequential",
                        "allgather_sequential"});
  zero.without_meaning({"zero_quantized_nontrainable_weights", "mics_hierarchical_params_gather"});
  zero.finish();
}

}  // namespace tessera
