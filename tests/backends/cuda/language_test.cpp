// SPDX-License-Identifier: Apache-2.0
// Language models on fake GPUs and in the simulator: the same numbers, the same memory, whatever
// the order in which the devices run.
#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/host/trace_checks.h"
#include "tests/random.h"
#include "tests/training/language/language_run.h"

namespace tessera {
namespace {

using test::Call;
using test::LanguageRun;
using test::StandIn;
using test::TrainedLanguage;

struct OnGpus {
  std::vector<TrainedLanguage> trained;
  std::vector<Bytes> peaks;
  int kernels = 0;  // that rank 0 has launched
  int graphs = 0;   // likewise
};

OnGpus on_gpus(const LanguageRun& run, Rank ranks, std::uint64_t seed, CudaOptions options = {}) {
  options.pinned_memory = Bytes{4 << 20};
  OnGpus out{std::vector<TrainedLanguage>(static_cast<std::size_t>(ranks)),
             std::vector<Bytes>(static_cast<std::size_t>(ranks))};
  const test::StandInOptions world{
      .ranks = ranks, .device_bytes = std::size_t{192} << 20, .seed = seed};
  test::require_clean(test::run_on_gpus(
      world,
      [&](ProcessRuntime& runtime, Rank rank) {
        const auto own = static_cast<std::size_t>(rank);
        TESSERA_TRY(test::train(
            runtime, run, [&] { return runtime.poll(); }, [&] { return runtime.finish(); },
            out.trained[own]));
        out.peaks[own] = runtime.peak_reserved();
        if (rank != 0) return Status{};
        const StandIn& gpu = StandIn::current();
        out.kernels = gpu.uses(Call::kernel, 0);
        out.graphs = gpu.uses(Call::graph_launch, 0);
        return Status{};
      },
      options));
  return out;
}

void check_as_simulated(const LanguageRun& run, Rank ranks, std::uint64_t seed) {
  INFO(ranks << " ranks, seed " << seed);
  Bytes peak{};
  const TrainedLanguage expected = test::simulated(run, &peak, ranks);
  const OnGpus real = on_gpus(run, ranks, seed);
  for (Rank rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank);
    const auto own = static_cast<std::size_t>(rank);
    CHECK(real.trained[own].losses.at(rank) == expected.losses.at(rank));
    CHECK(real.trained[own].shards.at(rank) == expected.shards.at(rank));
    CHECK(real.peaks[own] == peak);
  }
  CHECK(real.kernels > 50 * run.steps * run.accumulation);  // nothing was computed on the host
}

LanguageRun tiny(bool llama, const Scheme& scheme) {
  LanguageRun run{.model = llama ? test::small_llama() : test::small_gpt2(), .scheme = scheme};
  run.options.processor = Processor::gpu;
  return run;
}

TEST_CASE("language models train on GPUs as simulated, to the bit and to the byte",
          "[cuda][language]") {
  const bool llama = GENERATE(false, true);
  const Rank ranks = GENERATE(1, 2, 4);
  for (const auto& [name, scheme] : test::language_schemes(llama ? "model.layers." : "h.")) {
    INFO(name);
    check_as_simulated(tiny(llama, scheme), ranks, 1);
  }
}

TEST_CASE("checkpointing, halves and offload train on GPUs as simulated", "[cuda][language]") {
  const bool llama = GENERATE(false, true);
  LanguageRun run = tiny(llama, FullyShardOptions{.units = {llama ? "model.layers.0" : "h.0"}});
  SECTION("blocks are computed again") {
    run.options.checkpointing = ActivationCheckpointing::full;
    check_as_simulated(run, 2, 3);
  }
  SECTION("parts of blocks are computed again") {
    run.options.dtype = GENERATE(DType::float32, DType::bfloat16);
    run.options.recompute = {.activation = true, .ffn = GENERATE(false, true), .attention = true};
    check_as_simulated(run, 2, 3);
  }
  SECTION("matrices are halves") {
    run.options.dtype = GENERATE(DType::bfloat16, DType::float16);
    check_as_simulated(run, 2, 4);
  }
  SECTION("parameters are gathered as halves") {
    const DType half = GENERATE(DType::bfloat16, DType::float16);
    run.scheme = FullyShardOptions{.units = {llama ? "model.layers.0" : "h.0"},
                                   .param_dtype = half,
                                   .reduce_dtype = DType::float32};
    run.options.dtype = run.options.parameters = half;
    run.options.checkpointing = ActivationCheckpointing::full;
    check_as_simulated(run, 2, 5);
  }
  SECTION("partitions and the optimizer are on the host") {
    run.scheme = Zero3Options{.prefetch_bucket = Numel{500},
                              .reduce_bucket = Numel{600},
                              .offload_param = {.device = Offload::Device::cpu},
                              .offload_optimizer = {.device = Offload::Device::cpu}};
    check_as_simulated(run, 2, 6);
  }
}

TEST_CASE("a hundred steps on a GPU lose what the CPU loses", "[cuda][language]") {
  const bool llama = GENERATE(false, true);
  LanguageRun run = tiny(llama, FullyShardOptions{});
  run.steps = 100;
  const OnGpus real = on_gpus(run, 1, 7);
  run.options.processor = Processor::cpu;
  const TrainedLanguage cpu = test::simulated(run, nullptr, 1);
  const std::vector<float>& expected = cpu.losses.at(0);
  const std::vector<float>& losses = real.trained[0].losses.at(0);
  REQUIRE(losses.size() == expected.size());
  for (std::size_t k = 0; k < losses.size(); ++k) {
    INFO("loss " << k);
    CHECK(losses[k] == Approx(expected[k]).margin(3e-5));
  }
}

TEST_CASE("TF32 rounds the operands of float32 products, and nothing else", "[cuda][language]") {
  const auto loss = [](DType dtype, bool tf32) {
    LanguageRun run = tiny(false, FullyShardOptions{});
    run.options.dtype = dtype;
    run.steps = 3;
    CudaOptions options;
    options.tf32 = tf32;
    return on_gpus(run, 1, 1, options).trained[0].losses.at(0).back();
  };
  const float exact = loss(DType::float32, false);
  const float rounded = loss(DType::float32, true);
  CHECK(rounded != exact);
  CHECK(std::abs(rounded - exact) < 1e-3F);
  CHECK(loss(DType::bfloat16, true) == loss(DType::bfloat16, false));
}

LanguageRun in_fp8(bool llama) {
  const char* const gpt2 = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 16,
      "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2})";
  const char* const gated = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 16,
      "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16})";
  LanguageRun run{.model = test::parsed(llama ? gated : gpt2), .scheme = FullyShardOptions{}};
  run.options.sequence_length = 16;
  run.options.fp8 = true;
  run.options.processor = Processor::gpu;
  return run;
}

TEST_CASE("in fp8 GPUs train as simulated", "[cuda][language][fp8]") {
  LanguageRun run = in_fp8(GENERATE(false, true));
  run.options.dtype = GENERATE(DType::float32, DType::bfloat16);
  run.options.recompute.ffn = GENERATE(false, true);
  check_as_simulated(run, 2, 8);
}

TEST_CASE("a model in fp8 is near the same without, and is not it", "[cuda][language][fp8]") {
  LanguageRun run = in_fp8(GENERATE(false, true));
  run.options.processor = Processor::cpu;
  run.steps = 20;
  const std::vector<float> in_8_bits = test::simulated(run, nullptr, 1).losses.at(0);
  CHECK(test::simulated(run, nullptr, 1).losses.at(0) == in_8_bits);
  run.options.fp8 = false;
  const std::vector<float> exact = test::simulated(run, nullptr, 1).losses.at(0);
  REQUIRE(in_8_bits.size() == exact.size());
  for (std::size_t k = 0; k < exact.size(); ++k) {
    INFO("loss " << k);
    CHECK(in_8_bits[k] == Approx(exact[k]).epsilon(0.02));
    CHECK(in_8_bits[k] != exact[k]);
  }
}

TEST_CASE("sizes that fp8 does not have on GPUs are refused before anything runs",
          "[cuda][language][fp8]") {
  LanguageRun run = in_fp8(false);
  run.options.sequence_length = 5;  // 10 tokens
  const auto made = LanguageModel::create(run.model, run.options);
  CHECK(made.status().code() == Code::not_supported);
  CHECK(made.status().message().find("multiples of 16") != std::string::npos);
  run.options.processor = Processor::cpu;
  CHECK(LanguageModel::create(run.model, run.options).ok());
}

TEST_CASE("with graphs the same numbers come in the same order, from fewer launches",
          "[cuda][language][graphs]") {
  const bool llama = GENERATE(false, true);
  const Rank ranks = GENERATE(1, 2);
  for (const auto& [name, scheme] : test::language_schemes(llama ? "model.layers." : "h.")) {
    INFO(name << ", " << ranks << " ranks");
    LanguageRun run = tiny(llama, scheme);
    run.steps = 5;
    test::RecordedTrace direct, launched;
    const OnGpus expected = on_gpus(run, ranks, 1, {.sink = &direct});
    const OnGpus real = on_gpus(run, ranks, 2, {.sink = &launched, .graphs = true});
    for (Rank rank = 0; rank < ranks; ++rank) {
      const auto own = static_cast<std::size_t>(rank);
      CHECK(real.trained[own].losses == expected.trained[own].losses);
      CHECK(real.trained[own].shards == expected.trained[own].shards);
      CHECK(real.peaks[own] == expected.peaks[own]);
    }
    CHECK(expected.graphs == 0);
    CHECK(real.graphs > 20);
    CHECK(real.kernels < expected.kernels * 4 / 5);
    CHECK(launched.order == direct.order);
    test::check_times(launched, ranks, run.steps);
  }
}

// A failure prints the seed that repeats it.
TEST_CASE("no order in which a GPU may run changes what a language model learns",
          "[cuda][language]") {
  const auto schemes = test::language_schemes("h.");
  for (std::uint64_t seed = 1; seed <= test::generated(24); ++seed) {
    LanguageRun run = tiny(false, schemes[seed % schemes.size()].second);
    run.steps = 2;
    check_as_simulated(run, 2, seed);
  }
}

}  // namespace
}  // namespace tessera
