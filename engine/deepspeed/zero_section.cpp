// SPDX-License-Identifier: Apache-2.0
// `zero_optimization` (deepspeed/runtime/zero/config.py, offload_config.py).
#include <fmt/format.h>

#include <algorithm>

#include "engine/deepspeed/sections.h"

namespace tessera {
namespace {

using Device = DeepSpeedOffload::Device;

Device device_of(ConfigObject& section) {
  const auto place = section.choice({"device"}, {"none", "cpu", "nvme"});
  return static_cast<Device>(place.value_or(0));
}

void check_path(ConfigObject& section, const DeepSpeedOffload& offload) {
  if (offload.device == Device::nvme && offload.nvme_path.empty()) {
    section.fail("nvme_path", "is missing: device nvme needs a folder");
  }
}

void read_offload_param(ConfigObject& zero, DeepSpeedOffload& offload) {
  ConfigObject section = zero.object("offload_param");
  offload.device = device_of(section);
  offload.nvme_path = section.text({"nvme_path"}).value_or("");
  offload.buffer_count = section.integer({"buffer_count"}).value_or(offload.buffer_count);
  if (const auto size = section.integer({"buffer_size"})) offload.buffer_size = Numel{*size};
  if (const auto most = section.integer({"max_in_cpu"})) offload.max_in_cpu = Numel{*most};
  offload.pin_memory = section.boolean({"pin_memory"}).value_or(false);
  check_path(section, offload);
  section.finish();
}

void read_offload_optimizer(ConfigObject& zero, DeepSpeedOffload& offload) {
  ConfigObject section = zero.object("offload_optimizer");
  offload.device = device_of(section);
  offload.nvme_path = section.text({"nvme_path"}).value_or("");
  offload.buffer_count = section.integer({"buffer_count"}).value_or(offload.buffer_count);
  offload.pin_memory = section.boolean({"pin_memory"}).value_or(false);
  offload.pipeline_read = section.boolean({"pipeline_read"}).value_or(false);
  offload.pipeline_write = section.boolean({"pipeline_write"}).value_or(false);
  offload.fast_init = section.boolean({"fast_init"}).value_or(false);
  offload.ratio = section.number({"ratio"}, 0, 1).value_or(1);
  section.without_meaning({"pipeline", "super_offload", "cpuadam_cores_perc"});
  check_path(section, offload);
  section.finish();
}

// From before there were sections for it.
void read_legacy_offload(ConfigObject& zero, DeepSpeedConfig& config) {
  if (zero.boolean({"cpu_offload_param"}).value_or(false)) {
    config.offload_param.device = Device::cpu;
  }
  if (zero.boolean({"cpu_offload"}).value_or(false)) config.offload_optimizer.device = Device::cpu;
  if (zero.boolean({"cpu_offload_use_pin_memory"}).value_or(false)) {
    config.offload_param.pin_memory = config.offload_optimizer.pin_memory = true;
  }
}

void check_offload(ConfigObject& zero, const DeepSpeedConfig& config) {
  if (config.stage != 3 && config.offload_param.device != Device::none) {
    zero.fail("offload_param", fmt::format("is for stage 3, found stage {}", config.stage));
  }
  if (config.stage != 3 && config.offload_optimizer.ratio < 1) {
    zero.fail("offload_optimizer.ratio",
              fmt::format("below 1 is for stage 3, found stage {}", config.stage));
  }
}

void set(Numel& option, const std::optional<std::int64_t>& value) {
  if (value) option = Numel{*value};
}

Zero3Options read_stage3(ConfigObject& zero) {
  Zero3Options o;
  const auto read = [&zero](Numel& option, std::string_view key, std::string_view alias) {
    set(option, zero.integer({key, alias}));
  };
  read(o.prefetch_bucket, "stage3_prefetch_bucket_size", "prefetch_bucket_size");
  read(o.max_reuse_distance, "stage3_max_reuse_distance", "max_reuse_distance");
  read(o.max_live_parameters, "stage3_max_live_parameters", "max_live_parameters");
  read(o.persistence_threshold, "stage3_param_persistence_threshold",
       "param_persistence_threshold");
  read(o.model_persistence_threshold, "stage3_model_persistence_threshold",
       "model_persistence_threshold");
  set(o.sub_group_size, zero.integer({"sub_group_size"}, 1));
  o.plus_plus.secondary_group =
      static_cast<Index>(zero.integer({"zero_hpz_partition_size"}, 1, 1'000'000).value_or(1));
  // -1: MiCS is off.
  const std::int64_t mics = zero.integer({"mics_shard_size"}, -1, 1'000'000).value_or(-1);
  o.shard_group = static_cast<Index>(std::max<std::int64_t>(mics, 0));
  o.plus_plus.quantized_weights = zero.boolean({"zero_quantized_weights"}).value_or(false);
  o.plus_plus.quantized_gradients = zero.boolean({"zero_quantized_gradients"}).value_or(false);
  return o;
}

Zero12Options read_stages12(ConfigObject& zero, std::int32_t stage) {
  Zero12Options o{.stage = stage};
  set(o.allgather_bucket, zero.integer({"allgather_bucket_size", "allgather_size"}));
  if (o.allgather_bucket.value % 2 != 0) {
    zero.fail("allgather_bucket_size",
              fmt::format("must be a multiple of 2, found {}", o.allgather_bucket.value));
  }
  o.overlap_comm = zero.boolean({"overlap_comm"}).value_or(false);
  o.reduce_scatter = zero.boolean({"reduce_scatter"}).value_or(true);
  o.round_robin_gradients = zero.boolean({"round_robin_gradients"}).value_or(false);
  return o;
}

// Keys of stages that were not chosen.
void list_other_stages(ConfigObject& zero, std::int32_t stage) {
  if (stage != 3) {
    zero.without_meaning(
        {"stage3_prefetch_bucket_size", "prefetch_bucket_size", "stage3_max_reuse_distance",
         "max_reuse_distance", "stage3_max_live_parameters", "max_live_parameters",
         "stage3_param_persistence_threshold", "param_persistence_threshold",
         "stage3_model_persistence_threshold", "model_persistence_threshold", "sub_group_size",
         "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_gradients"});
  }
  if (stage != 1 && stage != 2) {
    zero.without_meaning(
        {"allgather_bucket_size", "allgather_size", "reduce_scatter", "round_robin_gradients"});
  }
  // Stage 3 overlaps always.
  if (stage == 0 || (stage == 3 && !zero.boolean({"overlap_comm"}).value_or(true))) {
    zero.without_meaning({"overlap_comm"});
  }
  // What is kept of these is not used yet.
  if (stage != 3) zero.without_meaning({"offload_optimizer", "cpu_offload"});
}

}  // namespace

void read_zero(ConfigObject& root, DeepSpeedConfig& config) {
  const nlohmann::json* value = root.value({"zero_optimization"});
  if (value != nullptr && value->is_boolean()) {  // deprecated
    config.stage = value->get<bool>() ? 1 : 0;
    value = nullptr;
  }
  ConfigObject zero = root.object("zero_optimization", value);
  config.stage = static_cast<std::int32_t>(zero.integer({"stage"}, 0, 3).value_or(config.stage));
  const auto reduce_bucket = zero.integer({"reduce_bucket_size"});
  if (config.stage == 0) config.scheme = ReplicateOptions{};
  if (config.stage == 1 || config.stage == 2) {
    Zero12Options options = read_stages12(zero, config.stage);
    set(options.reduce_bucket, reduce_bucket);
    config.scheme = options;
  }
  if (config.stage == 3) {
    Zero3Options options = read_stage3(zero);
    set(options.reduce_bucket, reduce_bucket);
    config.scheme = options;
  }
  list_other_stages(zero, config.stage);
  read_offload_param(zero, config.offload_param);
  read_offload_optimizer(zero, config.offload_optimizer);
  read_legacy_offload(zero, config);
  check_offload(zero, config);
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
