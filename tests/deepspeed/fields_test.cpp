// SPDX-License-Identifier: Apache-2.0
// All fields of the classes that DeepSpeed 0.19.8 reads its configuration with, and the keys that
// it and 0.9.0 look up by name: each acts, is refused by name, or is said.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/deepspeed/outcome.h"

namespace tessera::test {
namespace {

struct Section {
  const char* path;
  const char* context;  // what its fields need
  const char* fields;   // a sample of another value than the default for each
};

constexpr const char* offloading = R"({"zero_optimization": {"stage": 3, "offload_param":
  {"device": "nvme", "nvme_path": "/a"}, "offload_optimizer": {"device": "nvme",
  "nvme_path": "/b"}}})";

const std::vector<Section> sections = {
    {"zero_optimization", R"({"zero_optimization": {"stage": 3}})", R"({"stage": 2,
      "contiguous_gradients": false, "reduce_scatter": false, "reduce_bucket_size": 70,
      "use_multi_rank_bucket_allreduce": false, "allgather_partitions": false,
      "allgather_bucket_size": 70, "overlap_comm": false, "compute_grad_norm": false,
      "load_from_fp32_weights": false, "elastic_checkpoint": true,
      "zenflow": {"topk_ratio": 0.2}, "sub_group_size": 70, "cpu_offload_param": true,
      "cpu_offload_use_pin_memory": true, "cpu_offload": true, "prefetch_bucket_size": 70,
      "param_persistence_threshold": 70, "model_persistence_threshold": 70,
      "max_live_parameters": 70, "max_reuse_distance": 70,
      "stage3_prefetch_bucket_size": 70, "stage3_param_persistence_threshold": 70,
      "stage3_model_persistence_threshold": 70, "stage3_max_live_parameters": 70,
      "stage3_max_reuse_distance": 70, "gather_16bit_weights_on_model_save": true,
      "stage3_gather_16bit_weights_on_model_save": true, "module_granularity_threshold": 70,
      "stage3_module_granularity_threshold": 70, "use_all_reduce_for_fetch_params": true,
      "stage3_use_all_reduce_for_fetch_params": true, "allgather_sequential": true,
      "stage3_allgather_sequential": true, "stage3_gather_fp16_weights_on_model_save": true,
      "ignore_unused_parameters": false, "legacy_stage1": true, "round_robin_gradients": true,
      "parameter_alignment": true, "zero_hpz_partition_size": 4, "zero_quantized_weights": true,
      "zero_quantized_nontrainable_weights": true, "zero_quantized_gradients": true,
      "mics_shard_size": 4, "mics_hierarchical_params_gather": true,
      "memory_efficient_linear": false, "pipeline_loading_checkpoint": true,
      "override_module_apply": false, "log_trace_cache_warnings": true,
      "enable_sanity_checks": true, "zeropp_loco_param": {"err_beta": 0.8},
      "save_muon_momentum_buffer_in_memory": true})"},
    {"zero_optimization", R"({"zero_optimization": {"stage": 2}})", R"({"stage": 1,
      "contiguous_gradients": false, "reduce_scatter": false, "reduce_bucket_size": 70,
      "allgather_bucket_size": 70, "overlap_comm": true, "round_robin_gradients": true,
      "allgather_partitions": false, "cpu_offload": true, "sub_group_size": 70,
      "use_multi_rank_bucket_allreduce": false, "parameter_alignment": true,
      "offload_optimizer": {"device": "cpu"}, "leaf_module": {"names": ["a"]},
      "stage3_max_reuse_distance": 70, "zero_quantized_weights": true})"},
    {"zero_optimization", R"({"zero_optimization": {"stage": 1}})", R"({"stage": 0,
      "overlap_comm": true, "round_robin_gradients": true, "reduce_scatter": false,
      "offload_optimizer": {"device": "cpu"}, "contiguous_gradients": false})"},
    {"zero_optimization", R"({"zero_optimization": {"stage": 0}})", R"({
      "overlap_comm": true, "round_robin_gradients": true, "reduce_scatter": false,
      "offload_optimizer": {"device": "cpu"}, "contiguous_gradients": false,
      "reduce_bucket_size": 70, "stage3_prefetch_bucket_size": 70})"},
    {"zero_optimization.offload_param", offloading, R"({"device": "cpu", "nvme_path": "/c",
      "buffer_count": 7, "buffer_size": 70, "max_in_cpu": 70, "pin_memory": false})"},
    {"zero_optimization.offload_optimizer", offloading, R"({"device": "cpu", "nvme_path": "/c",
      "buffer_count": 7, "pin_memory": false, "pipeline_read": true, "pipeline_write": true,
      "pipeline": true, "fast_init": true, "ratio": 0.5, "super_offload": true,
      "cpuadam_cores_perc": 0.5})"},
    {"zero_optimization.leaf_module", R"({"zero_optimization": {"stage": 3}})", R"({
      "classes": ["a.b.Block"], "names": ["h.0"], "name_suffixes": ["mlp"]})"},
    {"fp16", R"({"fp16": {"enabled": true}})", R"({"enabled": false, "auto_cast": true,
      "loss_scale": 128, "initial_scale_power": 12, "loss_scale_window": 70, "hysteresis": 3,
      "consecutive_hysteresis": true, "min_loss_scale": 2, "fp16_opt_level": "O2",
      "fp16_master_weights_and_grads": true})"},
    {"bf16", R"({"bf16": {"enabled": true}})", R"({"enabled": false,
      "immediate_grad_update": true, "check_grad_overflow": false,
      "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true})"},
    {"aio", R"({"zero_optimization": {"stage": 3}})", R"({"block_size": 4096, "queue_depth": 4,
      "thread_count": 3, "single_submit": true, "overlap_events": false, "use_gds": true})"},
    {"aio", "{}", R"({"block_size": 4096, "queue_depth": 4, "intra_op_parallelism": 3,
      "use_gds": true})"},
    {"optimizer", "{}", R"({"type": "Lion", "legacy_fusion": true})"},
    {"optimizer.params", R"({"optimizer": {"type": "AdamW"}})", R"({"lr": 0.5,
      "betas": [0.5, 0.6], "eps": 0.5, "weight_decay": 0.5, "torch_adam": true,
      "adam_w_mode": false, "bias_correction": false, "amsgrad": true, "momentum": 0.5,
      "max_coeff": 5, "min_coeff": 0.1, "freeze_step": 5, "max_grad_norm": 5,
      "cuda_aware": true, "comm_backend_name": "nccl", "muon_lr": 0.5, "adam_lr": 0.5})"},
    {"activation_checkpointing", "{}", R"({"partition_activations": true,
      "number_checkpoints": 4, "contiguous_memory_optimization": true,
      "cpu_checkpointing": true, "profile": true, "synchronize_checkpoint_boundary": true})"},
    {"hybrid_engine", R"({"hybrid_engine": {"enabled": true}})", R"({"max_out_tokens": 70,
      "inference_tp_size": 2, "release_inference_cache": true, "pin_parameters": false,
      "tp_gather_partition_size": 4, "enable_cuda_graph": true})"},
    {"tensor_parallel", "{}", R"({"dtype": "fp16", "autotp_size": 2, "tp_overlap_comm": true,
      "vocab_parallel_lm_head": true, "vocab_parallel_ce_backend": "liger",
      "tensor_parallel": {"tp_size": 2}, "tp": {"tp_size": 2},
      "injection_policy_tuple": ["a"], "partition_config": {"a": 1}, "preset_model": "llama",
      "keep_module_on_host": true, "replace_with_kernel_inject": true,
      "kernel_inject": true})"},
    {"compile", "{}", R"({"deepcompile": true, "autoep_non_moe": true, "free_activation": true,
      "free_activation_threshold": 7, "offload_activation": true,
      "offload_activation_pin_memory": false, "offload_opt_states": true,
      "double_buffer": false, "symmetric_memory": true, "debug_log": true,
      "offload_parameters": true, "sync_before_reduce": true, "sync_after_reduce": true,
      "sync_before_allgather": true, "sync_after_allgather": true,
      "keep_int_input_tensors": false, "keep_all_input_tensors": true, "passes": ["prefetch"],
      "enabled": true, "backend": "inductor", "kwargs": {}})"},
    {"data_types", "{}", R"({"grad_accum_dtype": "fp32", "param_dtype": "bf16",
      "buffer_dtype": "bf16", "keep_in_fp32_modules": ["norm"]})"},
    {"pipeline", "{}", R"({"stages": 2, "partition": "uniform", "seed_layers": true,
      "activation_checkpoint_interval": 1, "pipe_partitioned": false,
      "grad_partitioned": false, "use_reentrant": false})"},
    {"", "{}", R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2,
      "gradient_accumulation_steps": 2, "managed_gradient_accumulation": false,
      "optimizer": {"type": "Lamb"}, "scheduler": {"type": "WarmupLR"},
      "zero_allow_untested_optimizer": true, "zero_force_ds_cpu_optimizer": false,
      "steps_per_print": 5, "zero_optimization": true, "fp16": {"enabled": true},
      "bf16": {"enabled": true}, "bfloat16": {"enabled": true}, "gradient_clipping": 1,
      "communication_data_type": "fp16", "seq_parallel_communication_data_type": "fp16",
      "prescale_gradients": true, "gradient_predivide_factor": 2,
      "gradient_allreduce_op": "sum", "disable_allgather": true, "dump_state": true,
      "disable_python_gc": true, "wall_clock_breakdown": true, "memory_breakdown": true,
      "sparse_gradients": true, "fp32_allreduce": true, "vocabulary_size": 100,
      "checkpoint": {"tag_validation": "Fail"}, "data_types": {"grad_accum_dtype": "fp32"},
      "dataloader_drop_last": true, "log_level": "info",
      "use_data_before_expert_parallelism": true, "torch_autocast": {"enabled": true},
      "amp": {"enabled": true}, "sparse_attention": {"mode": "fixed"},
      "flops_profiler": {"enabled": true}, "comms_logger": {"enabled": true},
      "autotuning": {"enabled": true}, "tensorboard": {"enabled": true},
      "wandb": {"enabled": true}, "csv_monitor": {"enabled": true}, "comet": {"enabled": true},
      "elasticity": {"enabled": true}, "data_efficiency": {"enabled": true},
      "curriculum_learning": {"enabled": true}, "progressive_layer_drop": {"enabled": true},
      "eigenvalue": {"enabled": true}, "compression_training": {"weight_quantization": {}},
      "quantize_training": {"enabled": true}, "weight_quantization": {"a": 1},
      "nebula": {"enabled": true}, "hybrid_engine": {"enabled": true},
      "graph_harvesting": true, "expert_parallel": {"enabled": true}, "timers": {"a": 1},
      "datastates_ckpt": {"a": 1}, "compile": {"deepcompile": true}, "anything": 1})"},
};

// `config` with `value` at a dotted path.
void set_at(nlohmann::json& config, const std::string& path, const nlohmann::json& value) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  config[nlohmann::json::json_pointer(pointer)] = value;
}

TEST_CASE("every field of DeepSpeed's configuration acts, is refused by name, or is said",
          "[deepspeed]") {
  int fields = 0;
  for (const Section& section : sections) {
    const auto context = nlohmann::json::parse(section.context);
    const Outcome before = outcome_of(context);
    const std::string around = section.path;
    const auto fields_of_section = nlohmann::json::parse(section.fields);
    for (const auto& [key, value] : fields_of_section.items()) {
      const std::string path = around.empty() ? key : around + "." + key;
      nlohmann::json config = context;
      set_at(config, path, value);
      INFO(config.dump());
      const Outcome with = outcome_of(config);
      INFO(with.message << with.said);
      ++fields;
      if (with.refused) {
        const bool by_key = with.message.find(key) != std::string::npos;
        const bool by_section =
            with.message.starts_with("ds.json: " + around + " is not supported");
        CHECK((by_key || by_section));
        CHECK(with.message.find("is no key of DeepSpeed") == std::string::npos);
      } else {
        const bool acts = !before.refused && with.decided != before.decided;
        const bool hidden_by_refusal = before.refused;
        CHECK((acts || with.says(path) || hidden_by_refusal));
      }
    }
  }
  CHECK(fields > 200);
}

TEST_CASE("what changes time or memory is not said beside what changes nothing", "[deepspeed]") {
  const auto c =
      *parse_deepspeed_config(R"({"steps_per_print": 5, "scheduler": {"type": "OneCycle"},
    "activation_checkpointing": {"cpu_checkpointing": true, "profile": true},
    "zero_optimization": {"stage": 3, "allgather_sequential": true,
                          "stage3_max_reuse_distance": 5}})",
                              "ds.json", 2);
  const auto simulated = c.warnings("ds.json", c.scheme, /*real=*/false);
  REQUIRE(simulated.size() == 2);
  CHECK(
      simulated[0] ==
      "ds.json: time or memory differ from DeepSpeed's by: zero_optimization.allgather_sequential "
      "(what a module misses is gathered at once), activation_checkpointing.cpu_checkpointing "
      "(inputs of checkpointed blocks stay on the device), "
      "zero_optimization.stage3_max_reuse_distance (what is kept follows from the budget)");
  CHECK(simulated[1] ==
        "ds.json: no meaning here: activation_checkpointing.profile, steps_per_print, scheduler "
        "(the learning rate is that of --schedule)");
  CHECK(c.warnings("ds.json", c.scheme, /*real=*/true).size() == 3);
  Scheme compatible = c.scheme;
  std::get<Zero3Options>(compatible).policy = Zero3Policy::compatible;
  CHECK(c.warnings("ds.json", compatible, false)[0].find("reuse") == std::string::npos);
}

TEST_CASE("optimizers keep the states of their type", "[deepspeed]") {
  const auto states = [](const std::string& optimizer) {
    return parse_deepspeed_config(R"({"optimizer": )" + optimizer + "}", "ds.json", 2)->adam.states;
  };
  for (const std::string two : {"Adam", "AdamW", "Lamb", "MuAdam", "Muon"}) {
    CHECK(states(R"({"type": ")" + two + "\"}") == 2);
  }
  for (const std::string one : {"Lion", "Adagrad", "RMSprop"}) {
    CHECK(states(R"({"type": ")" + one + "\"}") == 1);
  }
  CHECK(states(R"({"type": "SGD", "params": {"lr": 0.1}})") == 0);
  CHECK(states(R"({"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}})") == 1);
  for (const std::string refused : {"OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Foo"}) {
    const Outcome outcome = outcome_of({{"optimizer", {{"type", refused}}}});
    CHECK(outcome.refused);
    CHECK(outcome.message.find("optimizer.type") != std::string::npos);
  }
}

TEST_CASE("files may have comments, but no key twice", "[deepspeed]") {
  const auto c = parse_deepspeed_config(R"({
    # how many
    "train_micro_batch_size_per_gpu": 3, // each
    /* and
       how */ "wandb": {"project": "a # b // c",},
    "zero_optimization": {"stage": 2,},
  })",
                                        "ds.json", 2);
  REQUIRE(c.ok());
  CHECK(c->micro_batch == 3);
  CHECK(c->stage == 2);
  CHECK(parse_deepspeed_config(R"({"zero_optimization": {"stage": 1, "stage": 3}})", "ds.json", 2)
            .status()
            .message() == "ds.json: the key \"stage\" is twice in one object: leave one out");
  CHECK(parse_deepspeed_config("{\"a\": 1 # b\n \"c\"}", "ds.json", 2).status().message() ==
        "ds.json: not valid JSON, see line 2 column 4");
}

}  // namespace
}  // namespace tessera::test
