// SPDX-License-Identifier: Apache-2.0
// Activations that wait in host memory.
#include <catch2/catch.hpp>

#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"
#include "tests/sim/vector_sink.h"

namespace tessera::sim {
namespace {

const char* const deep_llama = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100,
  "hidden_size": 1024, "num_hidden_layers": 8, "intermediate_size": 3072,
  "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 512})";

struct OffloadedRun {
  std::int64_t peak = 0;
  Time step = 0;
  std::size_t copies = 0;
};

OffloadedRun offloaded_run(std::int32_t blocks, ActivationCheckpointing checkpointing,
                           double host_bytes_per_s = 64e9) {
  const auto model = parse_model(deep_llama, "llama");
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1), .steps = 2};
  options.cluster.host.bytes_per_s = host_bytes_per_s;
  options.stack = *load_profile("fused");
  options.scheme = FullyShardOptions{.param_dtype = DType::bfloat16};
  options.training.batch = 16;
  options.training.sequence_length = 512;
  options.training.checkpointing = checkpointing;
  options.training.offload_activations = blocks;
  test::VectorSink sink;
  options.sink = &sink;
  const auto summary = simulate(*model, options);
  REQUIRE(summary.ok());
  OffloadedRun run{summary->peak_reserved.value,
                   sink.steps.back().end.front() - sink.steps.back().begin.front(), 0};
  for (const auto& [id, op] : sink.ops) run.copies += op.reason == Reason::offload ? 1 : 0;
  return run;
}

}  // namespace

TEST_CASE("offloaded activations leave two blocks' worth on the device", "[stack][offload]") {
  constexpr auto none = ActivationCheckpointing::none;
  const OffloadedRun kept = offloaded_run(0, none);
  const OffloadedRun half = offloaded_run(4, none);
  const OffloadedRun all = offloaded_run(8, none);
  CHECK(kept.copies == 0);
  CHECK(half.peak < kept.peak);
  CHECK(all.peak < half.peak);
  // Eight blocks keep at least 8 times their inputs, queries, keys, values and three of an MLP.
  const std::int64_t block = std::int64_t{16 * 512} * 2 * (6 * 1024 + 3 * 3072);
  CHECK(kept.peak - all.peak > 4 * block);
}

TEST_CASE("a slow path to the host makes a step wait for its activations", "[stack][offload]") {
  constexpr auto none = ActivationCheckpointing::none;
  const Time kept = offloaded_run(0, none).step;
  CHECK(10 * offloaded_run(8, none, 1e12).step < 12 * kept);
  CHECK(offloaded_run(8, none, 4e9).step > 2 * kept);
}

TEST_CASE("of checkpointed blocks their inputs are offloaded", "[stack][offload]") {
  constexpr auto full = ActivationCheckpointing::full;
  const OffloadedRun kept = offloaded_run(0, full);
  const OffloadedRun all = offloaded_run(8, full);
  CHECK(all.peak < kept.peak);
  CHECK(all.copies > 0);
}

TEST_CASE("offloaded activations are near to no run that keeps them", "[error][offload]") {
  const auto model = parse_model(deep_llama, "llama");
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1)};
  options.training.offload_activations = 2;
  CHECK(run_of(*model, options).offload == "activations");
  options.scheme = FullyShardOptions{.offload_params = true};
  CHECK(run_of(*model, options).offload == "parameters and activations");
}

}  // namespace tessera::sim
