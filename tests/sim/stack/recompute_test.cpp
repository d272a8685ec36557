// SPDX-License-Identifier: Apache-2.0
#include "tessera/recompute.h"

#include <catch2/catch.hpp>

#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"
#include "tests/sim/vector_sink.h"

namespace tessera::sim {
namespace {

const char* const recomputed_llama = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100,
  "hidden_size": 1024, "num_hidden_layers": 3, "intermediate_size": 3072,
  "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 512})";

struct RecomputedRun {
  std::int64_t peak = 0;
  Time step = 0;
};

SimulateOptions options_with(const Recompute& recompute, const char* profile = "eager") {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1), .steps = 2};
  options.stack = *load_profile(profile);
  options.stack.allocator = StackProfile::Allocator::planned;
  options.scheme = FullyShardOptions{.param_dtype = DType::bfloat16};
  options.training.batch = 16;
  options.training.sequence_length = 512;
  options.training.recompute = recompute;
  return options;
}

RecomputedRun recomputed_run(const Model& model, const Recompute& recompute,
                             const char* profile = "eager") {
  SimulateOptions options = options_with(recompute, profile);
  test::VectorSink sink;
  options.sink = &sink;
  const auto summary = simulate(model, options);
  REQUIRE(summary.ok());
  const auto& last = sink.steps.back();
  return {summary->peak_reserved.value, last.end.front() - last.begin.front()};
}

RecomputedRun recomputed_run(const Recompute& recompute, const char* profile = "eager") {
  return recomputed_run(*parse_model(recomputed_llama, "llama"), recompute, profile);
}

}  // namespace

TEST_CASE("what backward computes again is neither kept nor free", "[stack][recompute]") {
  const RecomputedRun all = recomputed_run({});
  const RecomputedRun norm = recomputed_run({.norm = true});
  const RecomputedRun activation = recomputed_run({.activation = true});
  const RecomputedRun ffn = recomputed_run({.ffn = true});
  const RecomputedRun qkv = recomputed_run({.qkv = true});
  const RecomputedRun attention = recomputed_run({.attention = true});
  CHECK(norm.peak < all.peak);
  CHECK(ffn.peak < activation.peak);
  CHECK(activation.peak < all.peak);
  CHECK(attention.peak < qkv.peak);
  CHECK(qkv.peak < all.peak);
  CHECK(norm.step > all.step);
  CHECK(ffn.step > activation.step);
  CHECK(attention.step > qkv.step);
}

TEST_CASE("a layer keeps less by the bytes of what is computed again", "[stack][recompute]") {
  // Two of three layers are kept as a whole at the peak; the third is there again.
  const double tokens = 16 * 512, layers = 3;
  const double of_norms = tokens * layers * 2 * (1024 + 1024);
  const std::int64_t all = recomputed_run({}).peak;
  const auto less = static_cast<double>(all - recomputed_run({.norm = true}).peak);
  CHECK(less > of_norms / 2);
  CHECK(less <= of_norms);
}

TEST_CASE("layers in one matrix are computed again like those in several", "[stack][recompute]") {
  std::string fused = recomputed_llama;
  fused.replace(fused.find("LlamaForCausalLM"), 16, "Phi3ForCausalLM");
  const auto phi3 = parse_model(fused, "phi3");
  REQUIRE(phi3.ok());
  const auto spared = [&](const Recompute& what) {
    const std::int64_t of_one = recomputed_run(*phi3, {}).peak - recomputed_run(*phi3, what).peak;
    CHECK(of_one == recomputed_run({}).peak - recomputed_run(what).peak);
    return of_one;
  };
  CHECK(spared({.activation = true}) > 0);
  CHECK(spared({.ffn = true}) > spared({.activation = true}));
  // Queries, keys and values, too, though the class names the matrix behind them first.
  CHECK(spared({.qkv = true}) > 0);
  CHECK(spared({.attention = true}) > spared({.qkv = true}));
  CHECK(recomputed_run(*phi3, {.qkv = true}).step > recomputed_run(*phi3, {}).step);
}

TEST_CASE("a stack that keeps no normalised inputs spares and pays nothing for them",
          "[stack][recompute]") {
  const RecomputedRun all = recomputed_run({}, "compile");
  const RecomputedRun norm = recomputed_run({.norm = true}, "compile");
  CHECK(norm.peak == all.peak);
  CHECK(norm.step == all.step);
}

TEST_CASE("recompute is refused where it could mean nothing", "[stack][recompute]") {
  const auto model = parse_model(recomputed_llama, "llama");
  SimulateOptions options = options_with({.norm = true});
  options.training.checkpointing = ActivationCheckpointing::full;
  CHECK(simulate(*model, options).status().code() == Code::invalid_argument);
  const auto bare = parse_model(R"({"tessera_model": 1, "name": "bare", "root": {"class": "Net",
    "modules": [{"name": "a", "class": "Linear", "parameters": [{"name": "weight",
    "shape": [64, 64]}]}]}, "forward": ["a"]})",
                                "bare");
  REQUIRE(bare.ok());
  const Status refused = simulate(*bare, options_with({.ffn = true})).status();
  CHECK(refused.code() == Code::not_supported);
  CHECK(refused.message().find("bare has no MLP") != std::string::npos);
}

TEST_CASE("another recomputation than the validated one is said to be far", "[error][recompute]") {
  const auto model = parse_model(recomputed_llama, "llama");
  CHECK(run_of(*model, options_with({.norm = true, .ffn = true})).checkpointing == "norm+ffn");
  CHECK(run_of(*model, options_with({})).checkpointing == "none");
}

}  // namespace tessera::sim
