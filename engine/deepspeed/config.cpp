// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/deepspeed/sections.h"
#include "engine/text/json_reader.h"
#include "engine/text/text_file.h"

namespace tessera {
namespace {

// DynamicLossScaler, or with a `loss_scale` above 0 LossScaler (deepspeed fp16/loss_scaler.py).
LossScaleOptions read_loss_scale(ConfigObject& fp16) {
  LossScaleOptions scale = deepspeed_loss_scale();
  const double fixed = fp16.number({"loss_scale"}, 0, 1e30).value_or(0);
  const std::int64_t power = fp16.integer({"initial_scale_power"}, 0, 100).value_or(16);
  const auto window = fp16.integer({"loss_scale_window"}, 1, 1'000'000'000);
  const auto hysteresis = fp16.integer({"hysteresis"}, 1, 1'000'000'000);
  const auto least = fp16.number({"min_loss_scale"}, 0, 1e30);
  if (fixed > 0) {
    fp16.without_meaning(
        {"initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale"},
        "loss_scale is static");
    return {.initial_scale = static_cast<float>(fixed), .growth_factor = 1, .backoff_factor = 1};
  }
  scale.initial_scale = static_cast<float>(std::ldexp(1.0, static_cast<int>(power)));
  if (window) scale.growth_interval = static_cast<std::int32_t>(*window);
  if (hysteresis) scale.hysteresis = static_cast<std::int32_t>(*hysteresis);
  if (least) scale.min_scale = static_cast<float>(*least);
  return scale;
}

void read_dtype(ConfigObject& root, DeepSpeedConfig& config) {
  ConfigObject fp16 = root.object("fp16");
  const bool half = fp16.boolean({"enabled"}).value_or(false);
  const LossScaleOptions scale = read_loss_scale(fp16);
  if (!half) {
    fp16.without_meaning(
        {"loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale"},
        "fp16 is off");
  }
  fp16.finish(UnknownKeys::refused);
  const nlohmann::json* const given = root.value({"bf16"});
  const nlohmann::json* const old = given == nullptr ? root.value({"bfloat16"}) : nullptr;
  if (old != nullptr && !old->is_object()) root.fail("bfloat16", "must be an object {...}");
  ConfigObject bf16 = root.object("bf16", given == nullptr ? old : given);
  const bool brain = bf16.boolean({"enabled"}).value_or(false);
  bf16.finish(UnknownKeys::refused);
  if (half && brain) bf16.fail("enabled", "and fp16.enabled are true: choose one of them");
  if (half) config.loss_scale = scale;
  if (half) config.dtype = DType::float16;
  if (!half && brain) config.dtype = DType::bfloat16;
}

std::optional<DType> read_communication_dtype(ConfigObject& root) {
  static const std::vector<std::string> names = {"fp32", "fp16", "bfp16", "bf16"};
  const auto place = root.choice({"communication_data_type"}, names);
  static constexpr DType dtypes[] = {DType::float32, DType::float16, DType::bfloat16,
                                     DType::bfloat16};
  return place ? std::optional(dtypes[*place]) : std::nullopt;
}

// The scheduler's own keys are those of a class of DeepSpeed, which nothing here makes.
void read_scheduler(ConfigObject& root, DeepSpeedConfig& config) {
  const nlohmann::json* const value = root.value({"scheduler"});
  if (value == nullptr) return;
  ConfigObject scheduler = root.object("scheduler", value);
  config.scheduler = scheduler.text({"type"}).value_or("");
  scheduler.value({"params"});
  scheduler.finish(UnknownKeys::listed);
  if (config.scheduler.empty()) root.without_meaning({"scheduler"}, "it has no type");
  if (!config.scheduler.empty()) root.numbers_differ("scheduler");
}

struct WithDTypes {
  DType param;
  std::optional<DType> reduce;

  Scheme operator()(ReplicateOptions o) const { return o.dtype = param, o; }
  Scheme operator()(Zero12Options o) const { return set(o); }
  Scheme operator()(Zero3Options o) const { return set(o); }
  template <class Other>
  Scheme operator()(const Other& o) const {
    return o;
  }
  template <class Zero>
  Scheme set(Zero o) const {
    o.param_dtype = param;
    if (reduce) o.reduce_dtype = reduce;
    return o;
  }
};

}  // namespace

void read_aio(ConfigObject& root, Zero3Options& options) {
  ConfigObject section = root.object("aio");
  read_options(section, "aio.", options);
  section.finish(UnknownKeys::listed);
  const nlohmann::json* const given = root.value({"aio"});
  const auto nvme = Offload::Device::nvme;
  const bool files =
      options.offload_param.device == nvme || options.offload_optimizer.device == nvme;
  if (!files) return root.without_meaning({"aio"}, "nothing lives on NVMe");
  if (given == nullptr || !given->is_object()) return;
  for (const auto& [key, value] : given->items()) {  // handed on to what reads files
    if (value.is_null()) section.fail(key, "is null, but must be a number or a flag");
  }
}

Scheme with_dtype(const Scheme& scheme, DType dtype) {
  return std::visit(WithDTypes{dtype, {}}, scheme);
}

Result<DeepSpeedConfig> parse_deepspeed_config(std::string_view json, const std::string& source,
                                               Rank ranks) {
  TESSERA_ASSERT(ranks >= 1, "somebody must train");
  TESSERA_ASSIGN(const nlohmann::json parsed, parse_commented_json(json, source));
  ConfigFindings findings{.source = source};
  ConfigObject root(&parsed, "", findings);
  DeepSpeedConfig config;
  read_batch_sizes(root, ranks, config);
  Zero3Options offloading;  // sections that are read whatever the stage
  read_zero(root, config, offloading);
  read_dtype(root, config);
  const auto reduce = read_communication_dtype(root);
  if (config.stage == 0) {
    root.cost_differs("communication_data_type", "stage 0 reduces gradients in their own dtype");
  }
  if (const auto clip = root.number({"gradient_clipping"}, 0, 1e30)) {
    config.gradient_clipping = static_cast<float>(*clip);
  }
  read_optimizer(root, config);
  read_scheduler(root, config);
  read_aio(root, offloading);
  root.finish(UnknownKeys::listed);
  TESSERA_TRY(findings.status);
  config.scheme =
      std::visit(WithDTypes{config.dtype.value_or(DType::float32), reduce}, config.scheme);
  config.offload_param = offloading.offload_param;
  config.offload_optimizer = offloading.offload_optimizer;
  config.aio = offloading.aio;
  if (auto* zero3 = std::get_if<Zero3Options>(&config.scheme)) {
    zero3->offload_param = config.offload_param;
    zero3->offload_optimizer = config.offload_optimizer;
    zero3->aio = config.aio;
    zero3->aio.smallest = std::max(zero3->aio.smallest, config.aio.block_size);
  }
  config.without_meaning = std::move(findings.without_meaning);
  config.numbers_differ = std::move(findings.numbers_differ);
  config.cost_differs = std::move(findings.cost_differs);
  config.unknown = std::move(findings.unknown);
  return config;
}

Result<DeepSpeedConfig> load_deepspeed_config(const std::string& path, Rank ranks) {
  TESSERA_ASSIGN(const std::string text, text_of_file(path));
  return parse_deepspeed_config(text, path, ranks);
}

}  // namespace tessera
