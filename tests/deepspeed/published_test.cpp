// SPDX-License-Identifier: Apache-2.0
// Forty configurations as trainers, tutorials and repositories publish them, written anew: whatever
// one changes in a file changes a run, is refused, or is said.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/deepspeed/outcome.h"

namespace tessera::test {
namespace {

struct Published {
  const char* style;
  const char* text;
  const char* refused = "";  // part of the sentence, if it is
};

#define AUTO_BATCH                                                                       \
  R"( "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",)"            \
  R"( "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",)"              \
  R"( "zero_allow_untested_optimizer": true, "fp16": {"enabled": "auto", "loss_scale":)" \
  R"( 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2,)"        \
  R"( "min_loss_scale": 1}, "bf16": {"enabled": "auto"},)"
#define AUTO_ADAM                                                                       \
  R"( "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps":)" \
  R"( "auto", "weight_decay": "auto"}}, "scheduler": {"type": "WarmupLR", "params":)"   \
  R"( {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},)"
#define AUTO_ZERO3                                                                       \
  R"( "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,)"       \
  R"( "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",)"             \
  R"( "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,)" \
  R"( "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save":)"   \
  R"( true)"
#define STAGE2                                                                           \
  R"( "allgather_partitions": true, "allgather_bucket_size": 5e8, "overlap_comm":)"      \
  R"( true, "reduce_scatter": true, "reduce_bucket_size": 5e8, "contiguous_gradients":)" \
  R"( true, "round_robin_gradients": true)"

const std::vector<Published> files = {
    {"trainer, stage 0", "{" AUTO_BATCH R"("zero_optimization": {"stage": 0, )" STAGE2 "}}"},
    {"trainer, stage 1", "{" AUTO_BATCH R"("zero_optimization": {"stage": 1, )" STAGE2 "}}"},
    {"trainer, stage 2", "{" AUTO_BATCH R"("zero_optimization": {"stage": 2, )" STAGE2 "}}"},
    {"trainer, stage 2, offload",
     "{" AUTO_BATCH R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
     "pin_memory": true}, )" STAGE2 "}}"},
    {"trainer, stage 3", "{" AUTO_BATCH R"("zero_optimization": {"stage": 3, )" AUTO_ZERO3 "}}"},
    {"trainer, stage 3, offload",
     "{" AUTO_BATCH R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
     "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true}, )" AUTO_ZERO3
     R"(}, "comms_config": {"verbose": false}, "monitor_config": {"enabled": true}})"},
    {"trainer, stage 2, tensor parallel",
     R"({"_comment": "two ranks each", "bf16": {"enabled": true}, "zero_optimization":
     {"stage": 2, "gather_16bit_weights_on_model_save": true}, "tensor_parallel":
     {"autotp_size": 2}, "train_micro_batch_size_per_gpu": 1})",
     "tensor_parallel.autotp_size"},
    {"trainer, stage 3, fp8",
     R"({"fp8": {"enabled": true}, "bf16": {"enabled": true}, "zero_optimization":
     {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}})"},
    {"library test, stage 2",
     "{" AUTO_BATCH AUTO_ADAM R"("steps_per_print": 2000, "wall_clock_breakdown": false,
     "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true},
     "allgather_partitions": true, "allgather_bucket_size": 2e8, "overlap_comm": true,
     "reduce_scatter": true, "reduce_bucket_size": 2e8, "contiguous_gradients": true}})"},
    {"library test, stage 3",
     "{" AUTO_BATCH AUTO_ADAM R"("steps_per_print": 2000, "wall_clock_breakdown": false,
     "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
     "offload_param": {"device": "cpu", "pin_memory": true}, )" AUTO_ZERO3 "}}"},
    {"fine-tuner, stage 1",
     R"({"zero_optimization": {"stage": 1, "overlap_comm": true}, "bf16": {"enabled": "auto"},
     "fp16": {"enabled": "auto", "auto_cast": false, "loss_scale": 0, "initial_scale_power": 32,
     "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1},
     "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto",
     "wall_clock_breakdown": false})"},
    {"fine-tuner, stage 1, compiled",
     R"({"compile": {"disable": false, "backend": "inductor"}, "zero_optimization": {"stage": 1},
     "bf16": {"enabled": true}})",
     "compile.disable is no key of DeepSpeed"},
    {"fine-tuner, stage 2",
     R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
     "contiguous_gradients": true, "overlap_comm": true}, "bf16": {"enabled": true},
     "gradient_clipping": "auto", "train_batch_size": "auto", "wall_clock_breakdown": false})"},
    {"fine-tuner, stage 3, bf16",
     R"({"zero_force_ds_cpu_optimizer": false, "zero_allow_untested_optimizer": true,
     "zero_optimization": {"stage": 3, "overlap_comm": true, "contiguous_gradients": true,
     "sub_group_size": 0, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
     "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 0,
     "stage3_max_reuse_distance": 0, "stage3_gather_16bit_weights_on_model_save": true},
     "bf16": {"enabled": true}})"},
    {"fine-tuner, stage 3, all on the CPU",
     R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
     "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true},
     "sub_group_size": 0, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0},
     "bf16": {"enabled": true}, "gradient_accumulation_steps": "auto"})"},
    {"vision and language, stage 2",
     "{" AUTO_BATCH R"("zero_optimization": {"stage": 2, "overlap_comm": true,
     "contiguous_gradients": true, "sub_group_size": 1e9, "reduce_bucket_size": "auto"}})"},
    {"vision and language, stage 3",
     "{" AUTO_BATCH R"("steps_per_print": 1e5, "zero_optimization": {"stage": 3, )" AUTO_ZERO3
     "}}"},
    {"vision and language, stage 3, offload",
     "{" AUTO_BATCH R"("optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
     "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true,
     "fast_init": false}, "offload_param": {"device": "cpu"}, )" AUTO_ZERO3 "}}"},
    {"images, fp16 and a schedule",
     R"({"train_batch_size": 16, "steps_per_print": 2000, "optimizer": {"type": "Adam", "params":
     {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}}, "scheduler":
     {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001,
     "warmup_num_steps": 1000}}, "gradient_clipping": 1.0, "prescale_gradients": false,
     "fp16": {"enabled": true, "fp16_master_weights_and_grads": false, "loss_scale": 0,
     "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 15},
     "wall_clock_breakdown": false, "zero_optimization": {"stage": 0,
     "allgather_partitions": true, "reduce_scatter": true, "allgather_bucket_size": 50000000,
     "reduce_bucket_size": 50000000, "overlap_comm": true, "contiguous_gradients": true,
     "cpu_offload": false}})"},
    {"BERT, Lamb",
     R"({"train_batch_size": 4096, "train_micro_batch_size_per_gpu": 32, "steps_per_print": 100,
     "prescale_gradients": false, "optimizer": {"type": "Lamb", "params": {"lr": 11e-3,
     "weight_decay": 0.01, "bias_correction": false, "max_coeff": 0.3, "min_coeff": 0.01}},
     "gradient_clipping": 1.0, "wall_clock_breakdown": false, "fp16": {"enabled": true,
     "loss_scale": 0}, "sparse_attention": {"mode": "fixed", "block": 16}})"},
    {"BERT, one bit",
     R"({"train_batch_size": 4096, "train_micro_batch_size_per_gpu": 16, "optimizer":
     {"type": "OneBitAdam", "params": {"lr": 4e-4, "weight_decay": 0.01, "bias_correction": false,
     "freeze_step": 23000, "comm_backend_name": "nccl"}}, "fp16": {"enabled": true}})",
     "optimizer.type OneBitAdam"},
    {"translation, 0/1 Adam",
     R"({"train_batch_size": 64, "optimizer": {"type": "ZeroOneAdam", "params": {"lr": 1e-3}}})",
     "optimizer.type ZeroOneAdam"},
    {"Megatron, stage 1",
     R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "steps_per_print": 10,
     "zero_optimization": {"stage": 1}, "gradient_clipping": 1.0, "prescale_gradients": true,
     "fp16": {"enabled": true, "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2,
     "min_loss_scale": 1, "initial_scale_power": 11}, "wall_clock_breakdown": false})"},
    {"Megatron, stage 3, NVMe",
     R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
     "stage3_max_live_parameters": 3e9, "stage3_max_reuse_distance": 3e9,
     "stage3_param_persistence_threshold": 1e5, "stage3_prefetch_bucket_size": 5e7,
     "contiguous_gradients": true, "overlap_comm": true, "reduce_bucket_size": 9e7,
     "sub_group_size": 1e9, "offload_optimizer": {"device": "nvme", "nvme_path": "/local",
     "buffer_count": 4, "pipeline_read": false, "pipeline_write": false, "pin_memory": true},
     "offload_param": {"device": "nvme", "nvme_path": "/local", "buffer_size": 1e8}},
     "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": false,
     "overlap_events": true}, "fp16": {"enabled": true, "initial_scale_power": 16}})"},
    {"Megatron, curriculum",
     R"({"train_batch_size": 64, "curriculum_learning": {"enabled": true, "curriculum_type":
     "seqlen", "min_difficulty": 64, "max_difficulty": 1024}, "fp16": {"enabled": true}})"},
    {"Megatron, pipeline",
     R"({"train_batch_size": 64, "pipeline": {"pipe_partitioned": true, "grad_partitioned": true},
     "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true,
     "contiguous_memory_optimization": true, "number_checkpoints": 24,
     "synchronize_checkpoint_boundary": false, "profile": true}})"},
    {"176 billion, bf16",
     R"({"train_micro_batch_size_per_gpu": 2, "train_batch_size": 2048, "gradient_clipping": 1.0,
     "zero_optimization": {"stage": 0}, "bf16": {"enabled": true}, "steps_per_print": 2000,
     "data_types": {"grad_accum_dtype": "fp32"}, "wall_clock_breakdown": false})"},
    {"chat, stage 3, hybrid engine",
     R"({"train_batch_size": 32, "zero_optimization": {"stage": 3}, "fp16": {"enabled": true},
     "hybrid_engine": {"enabled": true, "max_out_tokens": 512, "inference_tp_size": 8}})",
     "hybrid_engine"},
    {"chat, stage 3, hybrid engine off",
     R"({"train_batch_size": 32, "zero_optimization": {"stage": 3, "memory_efficient_linear": false,
     "stage3_param_persistence_threshold": 1e4, "stage3_max_live_parameters": 3e7,
     "stage3_prefetch_bucket_size": 3e7}, "fp16": {"enabled": true, "loss_scale_window": 100},
     "gradient_clipping": 1.0, "prescale_gradients": false, "wall_clock_breakdown": false,
     "hybrid_engine": {"enabled": false, "max_out_tokens": 512}, "tensorboard": {"enabled": false,
     "output_path": "logs", "job_name": "a"}})"},
    {"ZeRO++",
     R"({"train_batch_size": 256, "zero_optimization": {"stage": 3, "zero_quantized_weights": true,
     "zero_hpz_partition_size": 8, "zero_quantized_gradients": true, "contiguous_gradients": true,
     "overlap_comm": true, "reduce_scatter": true}, "bf16": {"enabled": true}})"},
    {"MiCS",
     R"({"train_batch_size": 256, "zero_optimization": {"stage": 3, "mics_shard_size": 4,
     "mics_hierarchical_params_gather": true}, "bf16": {"enabled": true}})"},
    {"super offload",
     R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
     "offload_optimizer": {"device": "cpu", "super_offload": true, "ratio": 0.9}}})",
     "zero_optimization.offload_optimizer.super_offload"},
    {"twin flow",
     R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
     "offload_optimizer": {"device": "cpu", "pin_memory": true, "ratio": 0.4}}})"},
    {"ZenFlow",
     R"({"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer":
     {"device": "cpu", "pin_memory": true}, "zenflow": {"topk_ratio": 0.05,
     "select_strategy": "auto", "overlap_step": true}}, "bf16": {"enabled": true}})",
     "zero_optimization.zenflow"},
    {"deep compile",
     R"({"train_batch_size": 8, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true},
     "compile": {"deepcompile": true, "offload_activation": false}})",
     "compile.deepcompile"},
    {"leaf modules",
     R"({"train_batch_size": 8, "zero_optimization": {"stage": 3, "leaf_module": {"classes":
     ["transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock"], "names": [],
     "name_suffixes": ["experts"]}, "stage3_module_granularity_threshold": 5e6}})"},
    {"experts over ranks",
     R"({"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 4},
     "zero_optimization": {"stage": 1}})",
     "expert_parallel"},
    {"elastic",
     R"({"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4],
     "min_gpus": 1, "max_gpus": 100}, "zero_optimization": {"stage": 1}})",
     "elasticity"},
    {"compression",
     R"({"train_batch_size": 32, "optimizer": {"type": "Adam", "params": {"lr": 2e-5,
     "torch_adam": true, "adam_w_mode": true}}, "compression_training": {"weight_quantization":
     {"shared_parameters": {"enabled": true}}}, "zero_optimization": {"stage": 0}})"},
    {"Muon",
     R"({"train_batch_size": 16, "optimizer": {"type": "Muon", "params": {"lr": 0.02,
     "weight_decay": 0.1, "muon_lr": 0.02, "adam_lr": 1e-4}}, "zero_optimization": {"stage": 2,
     "save_muon_momentum_buffer_in_memory": true}, "bf16": {"enabled": true}})"},
};

// Another value; of lists and of what another program fills in the same.
nlohmann::json changed(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>() * 2 + 2;
  if (value.is_number()) return value.get<double>() < 1 ? value.get<double>() / 2 : 2.0;
  if (value.is_string() && value != "auto") return "changed " + value.get<std::string>();
  return value;
}

void expect_heard(const nlohmann::json& file, const nlohmann::json::json_pointer& at,
                  const Outcome& before, Rank ranks = 8) {
  const nlohmann::json& value = file[at];
  if (value.is_object()) {
    for (const auto& [key, below] : value.items()) expect_heard(file, at / key, before, ranks);
    return;
  }
  nlohmann::json other = file;
  other[at] = changed(value);
  if (other == file) return;
  std::string path = at.to_string().substr(1);
  std::replace(path.begin(), path.end(), '/', '.');
  const Outcome after = outcome_of(other, ranks);
  INFO(path << " in " << file.dump() << after.message << after.said);
  CHECK((after.refused || after.decided != before.decided || after.says(path)));
}

void expect_outcome(const std::string& style, const nlohmann::json& file,
                    const std::string& refused) {
  const Outcome outcome = outcome_of(file);
  INFO(style << ": " << outcome.message << outcome.said);
  CHECK(outcome.refused == !refused.empty());
  CHECK(outcome.message.find(refused) != std::string::npos);
  if (!outcome.refused) expect_heard(file, nlohmann::json::json_pointer(), outcome);
}

TEST_CASE("nothing that a published configuration says is silent", "[deepspeed]") {
  CHECK(files.size() == 40);
  for (const Published& published : files) {
    expect_outcome(published.style, nlohmann::json::parse(published.text), published.refused);
  }
}

// Written in the style of examples, documentation and trainers that others publish.
TEST_CASE("nothing is silent that 22 further configurations say", "[deepspeed]") {
  std::ifstream stream(std::string(TESSERA_SOURCE_DIR) +
                       "/tests/golden/deepspeed_published/files.json");
  const auto rows = nlohmann::json::parse(stream);
  CHECK(rows.size() == 22);
  for (const nlohmann::json& row : rows) {
    expect_outcome(row["style"], row["config"], row["refused"].get<std::string>());
  }
}

// TESSERA_DEEPSPEED_FILES=FOLDER test_deepspeed "[.files]": the same of files as they are.
TEST_CASE("nothing is silent that any file in a folder says", "[.files]") {
  const char* const folder = std::getenv("TESSERA_DEEPSPEED_FILES");
  REQUIRE(folder != nullptr);
  int read = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path());
    const auto file = nlohmann::json::parse(stream, nullptr, false);
    if (file.is_discarded()) continue;  // templates, comments
    Rank ranks = 8;                     // or as many as its batch sizes allow
    Outcome outcome = outcome_of(file, ranks);
    while (outcome.message.find("train_batch_size") != std::string::npos && ranks > 1) {
      outcome = outcome_of(file, ranks /= 2);
    }
    INFO(entry.path());
    ++read;
    refused += outcome.refused ? 1 : 0;
    if (outcome.refused) WARN(entry.path().filename() << ": " << outcome.message);
    if (!outcome.refused) expect_heard(file, nlohmann::json::json_pointer(), outcome, ranks);
  }
  WARN(read << " files, " << refused << " refused");
}

}  // namespace
}  // namespace tessera::test
