// SPDX-License-Identifier: Apache-2.0
// One thing of a configuration changed at random: it is refused in a sentence, acts, or is said.
// TESSERA_MUTATIONS=100000 tries more.
#include <catch2/catch.hpp>

#include "tests/deepspeed/outcome.h"
#include "tests/mutated_json.h"

namespace tessera::test {
namespace {

const char* const good[] = {
    R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 4, "gradient_clipping": 1.0, "steps_per_print": 10,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8,
    "weight_decay": 0.1}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "overlap_comm": true,
    "contiguous_gradients": true, "sub_group_size": 1e9, "reduce_bucket_size": 5e8,
    "stage3_prefetch_bucket_size": 5e7, "stage3_param_persistence_threshold": 1e5,
    "stage3_max_live_parameters": 1e9, "stage3_max_reuse_distance": 1e9,
    "leaf_module": {"classes": ["A"], "names": [], "name_suffixes": ["experts"]},
    "offload_optimizer": {"device": "nvme", "nvme_path": "/a", "buffer_count": 4,
    "pin_memory": true}, "offload_param": {"device": "nvme", "nvme_path": "/a",
    "buffer_size": 1e8, "max_in_cpu": 1e9}}, "aio": {"block_size": 262144, "queue_depth": 32,
    "thread_count": 1, "single_submit": false, "overlap_events": true},
    "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": false}})",
    R"({"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true, "loss_scale": 0,
    "loss_scale_window": 500, "hysteresis": 2, "min_loss_scale": 1, "initial_scale_power": 15},
    "zero_optimization": {"stage": 2, "allgather_partitions": true, "allgather_bucket_size": 5e8,
    "reduce_scatter": true, "reduce_bucket_size": 5e8, "round_robin_gradients": true,
    "offload_optimizer": {"device": "cpu", "ratio": 0.5}}, "communication_data_type": "fp32",
    "data_types": {"grad_accum_dtype": "fp32"}, "prescale_gradients": false,
    "gradient_predivide_factor": 2.0, "tensorboard": {"enabled": false}})"};

// Python takes one for the other: 1, 1.0 and true; "auto" is the default, which may be what the
// file said; an empty section says nothing.
bool alike(const nlohmann::json& a, const nlohmann::json& b) {
  const auto number = [](const nlohmann::json& value) {
    return value.is_boolean() ? nlohmann::json(value.get<bool>() ? 1 : 0) : value;
  };
  return b == "auto" || (a.is_object() && b == nlohmann::json::object()) || number(a) == number(b);
}

TEST_CASE("a configuration with a mistake acts, is refused in one sentence, or says it",
          "[deepspeed][errors]") {
  std::uint64_t seed = 1;
  std::uint64_t refused = 0;
  const std::uint64_t all = mutations(3000);
  for (; seed <= all; ++seed) {
    const auto config = nlohmann::json::parse(good[seed % std::size(good)]);
    const Outcome before = outcome_of(config);
    const MutatedJson mutated = JsonMutator(seed).mutate(config);
    const Outcome after = outcome_of_text(mutated.text);
    INFO(seed << " " << mutated.path << " " << mutated.after.dump().substr(0, 100) << ": "
              << after.message);
    if (after.refused) {
      ++refused;
      CHECK(is_one_sentence(after.message, "ds.json: "));
    } else if (!mutated.path.empty() && !alike(mutated.before, mutated.after)) {
      CHECK((after.decided != before.decided || after.says(mutated.path)));
    }
  }
  CHECK(refused > all / 2);
}

}  // namespace
}  // namespace tessera::test
