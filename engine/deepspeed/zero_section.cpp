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

// From before there were sections for it; DeepSpeed takes no file that has both.
void read_flag(ConfigObject& zero, std::string_view flag, std::string_view section,
               Device& device) {
  if (!zero.boolean({flag}).value_or(false)) return;
  if (zero.value({section}) != nullptr) {
    zero.fail(flag, fmt::format("is true, and {} is given, too: leave it out", section));
  }
  device = Device::cpu;
}

void read_offload(ConfigObject& zero, Zero3Options& o) {
  ConfigObject param = zero.object("offload_param");
  read_options(param, "offload_param.", o);
  check_path(param, o.offload_param);
  constexpr std::string_view for_nvme = "it is for device nvme";
  if (o.offload_param.device != Device::nvme) {
    param.without_meaning({"nvme_path", "buffer_count", "buffer_size"}, for_nvme);
  }
  param.finish(UnknownKeys::refused);
  ConfigObject optimizer = zero.object("offload_optimizer");
  read_options(optimizer, "offload_optimizer.", o);
  check_path(optimizer, o.offload_optimizer);
  if (o.offload_optimizer.device != Device::nvme) {
    optimizer.without_meaning({"nvme_path", "buffer_count", "pipeline_read", "pipeline_write"},
                              for_nvme);
  }
  optimizer.finish(UnknownKeys::refused);
  read_flag(zero, "cpu_offload_param", "offload_param", o.offload_param.device);
  read_flag(zero, "cpu_offload", "offload_optimizer", o.offload_optimizer.device);
}

void check_offload(ConfigObject& zero, std::int32_t stage, const Zero3Options& o) {
  if (stage != 3 && o.offload_param.device != Device::none) {
    const bool old = zero.value({"cpu_offload_param"}) != nullptr;
    zero.fail(old ? "cpu_offload_param" : "offload_param",
              fmt::format("is for stage 3, found stage {}", stage));
  }
  if ((stage == 1 || stage == 2) && o.offload_optimizer.device == Device::nvme) {
    zero.fail("offload_optimizer.device",
              fmt::format("nvme is for stage 3, found stage {}: take cpu", stage));
  }
  if (stage != 3 && o.offload_optimizer.ratio < 1) {
    zero.fail("offload_optimizer.ratio",
              fmt::format("below 1 is for stage 3, found stage {}", stage));
  }
}

// A class by its last name, a module by path or by the end of its path.
std::vector<std::string> read_leaf_modules(ConfigObject& zero) {
  ConfigObject section = zero.object("leaf_module");
  std::vector<std::string> found;
  for (const std::string_view key : {"classes", "names", "name_suffixes"}) {
    const nlohmann::json* const value = section.value({key});
    if (value == nullptr) continue;
    const std::vector<nlohmann::json> entries =
        value->is_array() ? value->get<std::vector<nlohmann::json>>() : std::vector{*value};
    for (const nlohmann::json& entry : entries) {
      if (!entry.is_string() || entry.get_ref<const std::string&>().empty()) {
        section.fail(key, "must be a string or a list of strings");
        return {};
      }
      std::string name = entry.get<std::string>();
      if (key == "classes") name = name.substr(name.rfind('.') + 1);
      if (key == "name_suffixes") name = "*" + name;
      if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
    }
  }
  section.finish(UnknownKeys::refused);
  return found;
}

Zero3Options read_stage3(ConfigObject& zero) {
  Zero3Options o;
  read_options(zero, "", o);
  // -1: MiCS is off.
  const std::int64_t mics = zero.integer({"mics_shard_size"}, -1, 1'000'000).value_or(-1);
  o.shard_group = static_cast<Index>(std::max<std::int64_t>(mics, 0));
  return o;
}

// The policy strict goes by its budget.
std::vector<std::string> keys_of_compatible(const ConfigObject& zero, const nlohmann::json* json) {
  std::vector<std::string> keys;
  if (json == nullptr || !json->is_object()) return keys;
  for (const std::string prefix : {"stage3_", ""}) {
    if (json->contains(prefix + "max_reuse_distance")) {
      keys.push_back(zero.full(prefix + "max_reuse_distance") +
                     " (what is kept follows from the budget)");
    }
    const auto bucket = json->find(prefix + "prefetch_bucket_size");
    if (bucket != json->end() && bucket->is_number() && *bucket != 0) {
      keys.push_back(zero.full(prefix + "prefetch_bucket_size") +
                     " (gathers run ahead as far as the budget reaches)");
    }
  }
  return keys;
}

Zero12Options read_stages12(ConfigObject& zero, std::int32_t stage) {
  Zero12Options o{.stage = stage};
  read_options(zero, "", o);
  if (stage == 1) {
    for (const Option& option : option_list(o).options()) {
      const bool others = !option.schemes.empty() && option.schemes.front() != "zero1";
      if (others) zero.without_meaning(option, "nor in stage 1 of DeepSpeed 0.9.0");
    }
  }
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
  if (stage != 3) zero.without_meaning({"mics_shard_size", "leaf_module", "offload_param"});
  if (stage == 0) zero.without_meaning({"overlap_comm", "offload_optimizer", "cpu_offload"});
  if (stage == 3 && !zero.boolean({"overlap_comm"}).value_or(true)) {
    zero.cost_differs("overlap_comm", "stage 3 overlaps always");
  }
}

// `"zero_optimization": true` has its one number at the top.
void read_allgather_size(ConfigObject& root, Scheme& scheme) {
  const auto size = root.integer({"allgather_size"});
  if (size && *size % 2 != 0) root.fail("allgather_size", "must be a multiple of 2");
  if (size) std::get<Zero12Options>(scheme).allgather_bucket = Numel{*size};
}

}  // namespace

void read_zero(ConfigObject& root, DeepSpeedConfig& config, Zero3Options& offloading) {
  const nlohmann::json* value = root.value({"zero_optimization"});
  bool before_sections = false;
  if (value != nullptr && value->is_boolean()) {  // deprecated
    config.stage = value->get<bool>() ? 1 : 0;
    value = nullptr;
    before_sections = config.stage == 1;
  }
  ConfigObject zero = root.object("zero_optimization", value);
  config.stage = static_cast<std::int32_t>(zero.integer({"stage"}, 0, 3).value_or(config.stage));
  if (config.stage == 0) config.scheme = ReplicateOptions{};
  if (config.stage == 1 || config.stage == 2) config.scheme = read_stages12(zero, config.stage);
  if (before_sections) read_allgather_size(root, config.scheme);
  std::vector<std::string> leaves = read_leaf_modules(zero);  // a class reads it in any stage
  if (config.stage == 3) {
    Zero3Options stage3 = read_stage3(zero);
    stage3.leaf_modules = std::move(leaves);
    config.scheme = std::move(stage3);
  }
  list_other_stages(zero, config.stage);
  read_offload(zero, offloading);
  check_offload(zero, config.stage, offloading);
  if (auto* const o = std::get_if<Zero12Options>(&config.scheme)) {
    o->offload_optimizer.device = offloading.offload_optimizer.device;
  }
  if (config.stage == 3) config.only_compatible = keys_of_compatible(zero, value);
  zero.finish(UnknownKeys::refused);
}

}  // namespace tessera
