// SPDX-License-Identifier: Apache-2.0
// The keys of DeepSpeed 0.9.0 to 0.19.8 (deepspeed/runtime/config.py and the classes it reads
// sections with), as far as nothing here obeys them.
#include "engine/deepspeed/known_keys.h"

#include <algorithm>
#include <string>

namespace tessera {
namespace {

using enum KeyEffect;

const std::vector<KnownKey> root_keys = {
    {"steps_per_print"},
    {"wall_clock_breakdown"},
    {"memory_breakdown"},
    {"dump_state"},
    {"flops_profiler"},
    {"comms_logger"},
    {"tensorboard"},
    {"wandb"},
    {"csv_monitor"},
    {"comet"},
    {"timers"},
    {"log_level"},
    {"disable_python_gc", none, "there is no Python here"},
    {"vocabulary_size"},
    {"checkpoint"},
    {"datastates_ckpt"},
    {"nebula"},
    {"load_universal_checkpoint"},
    {"use_node_local_storage"},
    {"dataloader_drop_last"},
    {"zero_allow_untested_optimizer"},
    {"zero_force_ds_cpu_optimizer"},
    {"managed_gradient_accumulation"},
    {"autotuning", none, "the values of this file count"},
    {"eigenvalue", none, "it serves compression alone"},
    {"use_data_before_expert_parallelism", none, "no experts are parallel here"},
    {"seq_parallel_communication_data_type", none, "no sequence is parallel here"},
    {"gradient_allreduce_dtype", none, "communication_data_type decides"},
    {"fp32_allreduce", none, "communication_data_type decides"},
    {"scheduler", numbers, "the learning rate is that of --schedule"},
    {"prescale_gradients", numbers, "gradients are divided before they are added", "false"},
    {"gradient_predivide_factor", numbers, "gradients are divided once", "1|1.0"},
    {"gradient_allreduce_op", numbers, "gradients are averaged", "\"mean\""},
    {"disable_allgather", cost, "stepped parameters are all_gathered", "false"},
    {"sparse_gradients", cost, "gradients of embeddings are reduced as dense ones", "false"},
    {"sparse_attention", cost, "attention is dense"},
    {"amp", cost, "dtypes are those of fp16 and bf16", "disabled"},
    {"torch_autocast", cost, "dtypes are those of fp16 and bf16", "disabled"},
    {"hybrid_engine", refused, "there is no generation between training steps", "disabled"},
    {"elasticity", refused, "it chooses batch sizes: give them", "disabled"},
    {"progressive_layer_drop", cost, "every layer runs in every step", "disabled"},
    {"curriculum_learning", cost, "all sequences have one length", "disabled"},
    {"data_efficiency", cost, "all sequences have one length, and all their tokens count",
     "disabled"},
    {"compression_training", cost, "weights and activations are not compressed", "{}"},
    {"quantize_training", cost, "weights are not quantised", "disabled"},
    {"weight_quantization", cost, "weights are not quantised", "{}"},
    {"weight_quantization_config", cost, "weights are not quantised", "{}"},
    {"graph_harvesting", cost, "a stack profile says what launches cost", "false"},
    {"bfloat16", none, "bf16 counts"},
    {"sequence_parallel_size", refused, "all ranks are data parallel", "0|1"},
    {"allgather_size", none, "it is read with \"zero_optimization\": true alone"},
    {"expert_parallel", refused, "experts are not spread over ranks", "disabled"},
    {"pipeline", section},
    {"pipeline.stages", refused, "all ranks are data parallel", "0|1"},
    {"pipeline.partition"},
    {"pipeline.seed_layers"},
    {"pipeline.pipe_partitioned"},
    {"pipeline.grad_partitioned"},
    {"pipeline.activation_checkpoint_interval", none, "--checkpoint-every says so"},
    {"pipeline.use_reentrant"},
    {"data_types", section},
    {"data_types.grad_accum_dtype", cost, "gradients are added up in the dtype of parameters"},
    {"data_types.param_dtype", cost, "dtypes are those of fp16 and bf16"},
    {"data_types.buffer_dtype", cost, "buffers keep their dtype"},
    {"data_types.keep_in_fp32_modules", cost, "buffers keep their dtype"},
    {"tensor_parallel", section},
    {"tensor_parallel.autotp_size", refused, "all ranks are data parallel", "0|1"},
    {"tensor_parallel.tensor_parallel", section},
    {"tensor_parallel.tensor_parallel.tp_size", refused, "all ranks are data parallel", "0|1"},
    {"tensor_parallel.tensor_parallel.tp_grain_size"},
    {"tensor_parallel.tensor_parallel.mpu"},
    {"tensor_parallel.tensor_parallel.tp_group"},
    {"tensor_parallel.tp", section},
    {"tensor_parallel.tp.tp_size", refused, "all ranks are data parallel", "0|1"},
    {"tensor_parallel.tp.tp_grain_size"},
    {"tensor_parallel.tp.mpu"},
    {"tensor_parallel.tp.tp_group"},
    {"tensor_parallel.dtype"},
    {"tensor_parallel.tp_overlap_comm"},
    {"tensor_parallel.vocab_parallel_lm_head"},
    {"tensor_parallel.vocab_parallel_ce_backend"},
    {"tensor_parallel.injection_policy_tuple"},
    {"tensor_parallel.partition_config"},
    {"tensor_parallel.preset_model"},
    {"tensor_parallel.keep_module_on_host"},
    {"tensor_parallel.replace_with_kernel_inject"},
    {"tensor_parallel.kernel_inject"},
    {"compile", section},
    {"compile.deepcompile", refused, "passes of a compiler do not move gathers here", "false"},
    {"compile.enabled", cost, "a stack profile says how fast kernels are", "false"},
    {"compile.backend", cost, "a stack profile says how fast kernels are"},
    {"compile.kwargs"},
    {"compile.autoep_non_moe"},
    {"compile.free_activation"},
    {"compile.free_activation_threshold"},
    {"compile.offload_activation"},
    {"compile.offload_activation_pin_memory"},
    {"compile.offload_opt_states"},
    {"compile.offload_parameters"},
    {"compile.double_buffer"},
    {"compile.symmetric_memory"},
    {"compile.debug_log"},
    {"compile.sync_before_reduce"},
    {"compile.sync_after_reduce"},
    {"compile.sync_before_allgather"},
    {"compile.sync_after_allgather"},
    {"compile.keep_int_input_tensors"},
    {"compile.keep_all_input_tensors"},
    {"compile.passes"},
};

const std::vector<KnownKey> section_keys = {
    {"fp16.fp16_opt_level"},
    {"fp16.auto_cast", numbers, "inputs have the dtype of parameters"},
    {"fp16.consecutive_hysteresis", numbers, "only overflows in a row use hysteresis up", "false"},
    {"fp16.fp16_master_weights_and_grads", cost, "masters are float32", "false"},
    {"bf16.immediate_grad_update", numbers, "gradients are added as they become ready"},
    {"bf16.check_grad_overflow", none, "a loss or norm that is no number ends training"},
    {"bf16.bf16_master_weights_and_grads", cost, "masters are float32", "false"},
    {"bf16.bf16_optimizer_states", cost, "states are float32", "false"},
    {"aio.single_submit", none, "requests are handed over as they come"},
    {"aio.overlap_events", none, "requests and their completions always overlap"},
    {"aio.intra_op_parallelism"},
    {"optimizer.legacy_fusion"},
    {"optimizer.params.torch_adam"},
    {"optimizer.params.fused"},
    {"optimizer.params.foreach"},
    {"optimizer.params.set_grad_none"},
    {"optimizer.params.cuda_aware"},
    {"optimizer.params.comm_backend_name"},
    {"optimizer.params.freeze_step"},
    {"optimizer.params.adam_w_mode", numbers, "weight decay is AdamW's", "true"},
    {"optimizer.params.bias_correction", numbers, "AdamW corrects its bias", "true"},
    {"optimizer.params.amsgrad", cost, "one more state per element", "false"},
    {"optimizer.params.momentum", numbers, "AdamW has betas"},
    {"optimizer.params.nesterov", numbers, "AdamW has no such momentum", "false"},
    {"optimizer.params.dampening", numbers, "AdamW has betas", "0|0.0"},
    {"optimizer.params.alpha", numbers, "AdamW has betas"},
    {"optimizer.params.lr_decay", numbers, "the learning rate is that of --schedule", "0|0.0"},
    {"optimizer.params.max_coeff", numbers, "Lamb's"},
    {"optimizer.params.min_coeff", numbers, "Lamb's"},
    {"optimizer.params.max_grad_norm", numbers, "gradient_clipping decides", "0|0.0"},
    {"optimizer.params.muon_lr", numbers, "Muon's"},
    {"optimizer.params.adam_lr", numbers, "Muon's"},
    {"optimizer.params.ns_method", cost, "Muon's"},
    {"activation_checkpointing", section},
    {"activation_checkpointing.partition_activations", none,
     "it parts them between tensor-parallel ranks, and there are none"},
    {"activation_checkpointing.cpu_checkpointing", cost,
     "inputs of checkpointed blocks stay on the device", "false"},
    {"activation_checkpointing.contiguous_memory_optimization", cost,
     "inputs of checkpointed blocks are allocated one by one", "false"},
    {"activation_checkpointing.number_checkpoints", none, "--checkpoint-every says so"},
    {"activation_checkpointing.synchronize_checkpoint_boundary", cost,
     "the host does not wait at checkpoints", "false"},
    {"activation_checkpointing.profile"},
};

const std::vector<KnownKey> zero_keys = {
    {"zero_optimization.load_from_fp32_weights"},
    {"zero_optimization.elastic_checkpoint"},
    {"zero_optimization.ignore_unused_parameters"},
    {"zero_optimization.pipeline_loading_checkpoint"},
    {"zero_optimization.override_module_apply"},
    {"zero_optimization.log_trace_cache_warnings"},
    {"zero_optimization.enable_sanity_checks"},
    {"zero_optimization.compute_grad_norm", none, "the norm is computed if gradients are clipped"},
    {"zero_optimization.save_muon_momentum_buffer_in_memory"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {"zero_optimization.gather_16bit_weights_on_model_save"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save"},
    {"zero_optimization.cpu_offload_use_pin_memory", none, "host memory always is pinned here"},
    {"zero_optimization.contiguous_gradients", cost, "gradients go through buffers", "true"},
    {"zero_optimization.allgather_partitions", cost, "stepped parts are all_gathered", "true"},
    {"zero_optimization.use_multi_rank_bucket_allreduce", cost,
     "every slice of a bucket is reduced to its owner"},
    {"zero_optimization.legacy_stage1", cost, "stage 1 is the one of 0.9.0", "false"},
    {"zero_optimization.parameter_alignment", cost, "parameters lie without gaps", "false"},
    {"zero_optimization.memory_efficient_linear", cost, "backward gathers weights again", "true"},
    {"zero_optimization.zeropp_loco_param", cost, "quantised gradients have no error feedback"},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", cost,
     "parameters are all_gathered", "false"},
    {"zero_optimization.use_all_reduce_for_fetch_params", cost, "parameters are all_gathered",
     "false"},
    {"zero_optimization.stage3_allgather_sequential", cost,
     "what a module misses is gathered at once", "false"},
    {"zero_optimization.allgather_sequential", cost, "what a module misses is gathered at once",
     "false"},
    {"zero_optimization.zero_quantized_nontrainable_weights", cost,
     "frozen parameters keep their dtype", "false"},
    {"zero_optimization.mics_hierarchical_params_gather", cost, "gathers are one collective",
     "false"},
    {"zero_optimization.zenflow", refused, "the CPU steps while the device trains on"},
    {"zero_optimization.offload_param.max_in_cpu", none,
     "nothing stays in host memory that nvme is to hold"},
    {"zero_optimization.offload_param.pin_memory", none, "host memory always is pinned here"},
    {"zero_optimization.offload_optimizer.pin_memory", none, "host memory always is pinned here"},
    {"zero_optimization.offload_optimizer.fast_init", none,
     "states are written once, when they are made"},
    {"zero_optimization.offload_optimizer.pipeline"},
    {"zero_optimization.offload_optimizer.cpuadam_cores_perc", none, "it is super_offload's"},
    {"zero_optimization.offload_optimizer.super_offload", refused,
     "the CPU steps while the device trains on", "false"},
};

// Of classes: fields that may be none.
constexpr std::string_view optional_fields[] = {
    "compile.passes",
    "tensor_parallel.injection_policy_tuple",
    "tensor_parallel.partition_config",
    "tensor_parallel.preset_model",
    "tensor_parallel.vocab_parallel_lm_head",
    "zero_optimization.cpu_offload",
    "zero_optimization.cpu_offload_param",
    "zero_optimization.cpu_offload_use_pin_memory",
    "zero_optimization.leaf_module",
    "zero_optimization.offload_optimizer",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_param",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.overlap_comm",
    "zero_optimization.zenflow",
};
constexpr std::string_view classes[] = {"bf16.", "compile.", "fp16.", "tensor_parallel.",
                                        "zero_optimization."};
// Others: sections that are searched for keys, and numbers that are compared.
constexpr std::string_view not_null[] = {
    "activation_checkpointing",
    "amp",
    "autotuning",
    "bfloat16",
    "checkpoint",
    "comet",
    "comms_logger",
    "compile",
    "compression_training",
    "csv_monitor",
    "curriculum_learning",
    "data_efficiency",
    "data_types",
    "eigenvalue",
    "elasticity",
    "flops_profiler",
    "fp16",
    "gradient_allreduce_op",
    "gradient_clipping",
    "gradient_predivide_factor",
    "graph_harvesting",
    "hybrid_engine",
    "nebula",
    "optimizer",
    "optimizer.params.betas",
    "optimizer.params.eps",
    "optimizer.params.lr",
    "optimizer.params.momentum",
    "optimizer.params.weight_decay",
    "pipeline",
    "progressive_layer_drop",
    "quantize_training",
    "scheduler",
    "sequence_parallel_size",
    "sparse_attention",
    "tensor_parallel",
    "tensorboard",
    "timers",
    "torch_autocast",
    "wall_clock_breakdown",
    "wandb",
    "weight_quantization",
    "zero_optimization",
};

template <class List>
bool holds(const List& list, std::string_view path) {
  return std::find(std::begin(list), std::end(list), path) != std::end(list);
}

}  // namespace

bool takes_null(std::string_view path) {
  const bool of_class =
      std::any_of(std::begin(classes), std::end(classes),
                  [&](std::string_view section) { return path.starts_with(section); });
  return of_class ? holds(optional_fields, path) : !holds(not_null, path);
}

const std::vector<KnownKey>& known_keys() {
  static const std::vector<KnownKey> all = [] {
    std::vector<KnownKey> rows = root_keys;
    rows.insert(rows.end(), section_keys.begin(), section_keys.end());
    rows.insert(rows.end(), zero_keys.begin(), zero_keys.end());
    return rows;
  }();
  return all;
}

const KnownKey* known_key(std::string_view path) {
  const auto& rows = known_keys();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const KnownKey& key) { return key.path == path; });
  return row == rows.end() ? nullptr : &*row;
}

bool is_off(const KnownKey& key, const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  for (std::string_view rest = key.off; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (text == one) return true;
    if (one != "disabled" || !value.is_object()) continue;
    const auto enabled = value.find("enabled");
    if (enabled == value.end() || *enabled != true) return true;
  }
  return false;
}

}  // namespace tessera
