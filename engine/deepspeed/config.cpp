// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/deepspeed/sections.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

// Loss scaling and its like change no schedule.
std::optional<DType> read_dtype(ConfigObject& root) {
  ConfigObject fp16 = root.object("fp16");
  const bool half = fp16.boolean({"enabled"}).value_or(false);
  fp16.without_meaning({"auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window",
                        "hysteresis", "consecutive_hysteresis", "min_loss_scale",
                        "fp16_master_weights_and_grads", "fp16_opt_level"});
  fp16.finish();
  const bool old_name = root.value({"bf16"}) == nullptr;
  ConfigObject bf16 = root.object(old_name ? "bfloat16" : "bf16");
  const bool brain = bf16.boolean({"enabled"}).value_or(false);
  bf16.without_meaning({"immediate_grad_update", "check_grad_overflow",
                        "bf16_master_weights_and_grads", "bf16_optimizer_states"});
  bf16.finish();
  if (half && brain) bf16.fail("enabled", "and fp16.enabled are true: choose one of them");
  if (half) return DType::float16;
  return brain ? std::optional(DType::bfloat16) : std::nullopt;
}

std::optional<DType> read_communication_dtype(ConfigObject& root) {
  static const std::vector<std::string> names = {"fp32", "fp16", "bfp16", "bf16"};
  const auto place = root.choice({"communication_data_type"}, names);
  static constexpr DType dtypes[] = {DType::float32, DType::float16, DType::bfloat16,
                                     DType::bfloat16};
  return place ? std::optional(dtypes[*place]) : std::nullopt;
}

void read_others(ConfigObject& root) {
  root.without_meaning({"scheduler",
                        "prescale_gradients",
                        "gradient_predivide_factor",
                        "sparse_gradients",
                        "amp",
                        "zero_allow_untested_optimizer",
                        "zero_force_ds_cpu_optimizer",
                        "steps_per_print",
                        "wall_clock_breakdown",
                        "memory_breakdown",
                        "dump_state",
                        "activation_checkpointing",
                        "sparse_attention",
                        "flops_profiler",
                        "comms_logger",
                        "autotuning",
                        "tensorboard",
                        "wandb",
                        "csv_monitor",
                        "comet",
                        "elasticity",
                        "data_efficiency",
                        "curriculum_learning",
                        "data_types",
                        "checkpoint",
                        "compression_training",
                        "eigenvalue",
                        "progressive_layer_drop",
                        "pipeline",
                        "nebula",
                        "hybrid_engine",
                        "compile",
                        "disable_allgather",
                        "fp32_allreduce",
                        "seq_parallel_communication_data_type",
                        "gradient_allreduce_dtype",
                        "dataloader_drop_last",
                        "use_data_before_expert_parallelism",
                        "load_universal_checkpoint",
                        "graph_harvesting",
                        "use_node_local_storage",
                        "timers",
                        "tensor_parallel",
                        "torch_autocast",
                        "weight_quantization_config"});
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
  section.without_meaning({"single_submit"}, "requests are handed over as they come");
  section.without_meaning({"overlap_events"}, "requests and their completions always overlap");
  section.finish();
}

// All that DeepSpeed's optimizers have in common is read; Tessera steps with AdamW.
void read_optimizer(ConfigObject& root, AdamOptions& adam) {
  ConfigObject optimizer = root.object("optimizer");
  if (const auto type = optimizer.text({"type"})) {
    const bool known = *type == "Adam" || *type == "AdamW";
    if (!known) optimizer.without_meaning({"type"});
  }
  optimizer.without_meaning({"legacy_fusion"});
  ConfigObject params = optimizer.object("params");
  const auto set = [](float& option, const std::optional<double>& value) {
    if (value) option = static_cast<float>(*value);
  };
  set(adam.learning_rate, params.number({"lr"}, 0, 1e6));
  set(adam.epsilon, params.number({"eps"}, 0, 1));
  set(adam.weight_decay, params.number({"weight_decay"}, 0, 1e6));
  if (const nlohmann::json* betas = params.value({"betas"})) {
    const bool two = betas->is_array() && betas->size() == 2 && (*betas)[0].is_number() &&
                     (*betas)[1].is_number();
    if (two) {
      adam.beta1 = (*betas)[0].get<float>();
      adam.beta2 = (*betas)[1].get<float>();
    }
    const auto sensible = [](float beta) { return beta >= 0 && beta < 1; };
    if (!two || !sensible(adam.beta1) || !sensible(adam.beta2)) {
      params.fail("betas", "must be two numbers of 0 to below 1");
    }
  }
  params.without_meaning({"torch_adam", "adam_w_mode", "bias_correction", "amsgrad", "momentum",
                          "max_coeff", "min_coeff", "freeze_step", "max_grad_norm", "cuda_aware",
                          "comm_backend_name"});
  params.finish();
  optimizer.finish();
}

Scheme with_dtype(const Scheme& scheme, DType dtype) {
  return std::visit(WithDTypes{dtype, {}}, scheme);
}

Result<DeepSpeedConfig> parse_deepspeed_config(std::string_view json, const std::string& source,
                                               Rank ranks) {
  TESSERA_ASSERT(ranks >= 1, "somebody must train");
  TESSERA_ASSIGN(const nlohmann::json parsed, parse_json(json, source));
  ConfigFindings findings{.source = source, .status = {}, .without_meaning = {}};
  ConfigObject root(&parsed, "", findings);
  DeepSpeedConfig config;
  read_batch_sizes(root, ranks, config);
  Zero3Options offloading;  // sections that are read whatever the stage
  read_zero(root, config, offloading);
  config.dtype = read_dtype(root);
  const auto reduce = read_communication_dtype(root);
  if (const auto clip = root.number({"gradient_clipping"}, 0, 1e30)) {
    config.gradient_clipping = static_cast<float>(*clip);
  }
  read_optimizer(root, config.adam);
  read_aio(root, offloading);
  read_others(root);
  root.finish();
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
  return config;
}

Result<DeepSpeedConfig> load_deepspeed_config(const std::string& path, Rank ranks) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be read: check the path and its permissions", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_deepspeed_config(text.str(), path, ranks);
}

}  // namespace tessera
