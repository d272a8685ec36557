// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"

namespace tessera::sim {
namespace {

const char* const small_gpt2 = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 1000,
  "n_positions": 64, "n_embd": 256, "n_layer": 16, "n_head": 2})";

SimulateOptions options_for(Bytes memory) {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1), .steps = 2};
  options.cluster.gpu.memory = memory;
  options.scheme = Fsdp1Options{};
  options.training.sequence_length = 64;
  return options;
}

}  // namespace

TEST_CASE("a run like the validated ones gets their error, another is said to be far", "[error]") {
  SimulatedRun run{"mosaic", "H100 SXM 80 GB", "full_shard", 64, Numel{7'000'000'000}};
  const auto near = error_range(run);
  REQUIRE(near.has_value());
  CHECK(near->near);
  CHECK(near->p90 > 0);
  CHECK(near->text.find("step time within") == 0);
  run.gpu = "L40S";
  run.ranks = 100'000;
  const auto far = error_range(run);
  CHECK_FALSE(far->near);
  CHECK(far->text.find("nothing near was ever validated") == 0);
  CHECK(far->text.find("H100") != std::string::npos);
  CHECK(far->text.find("ranks") != std::string::npos);
}

TEST_CASE("a caching allocator fits where only unused blocks are too many", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  REQUIRE(model.ok());
  auto options = options_for(Bytes{std::int64_t{1} << 40});
  const auto free = simulate(*model, options);
  REQUIRE(free.ok());
  // A little less than the engine's own allocator reserves.
  options.cluster.gpu.memory = free->peak_reserved - Bytes{8 << 20};
  CHECK_FALSE(simulate(*model, options)->fits);
  options.stack.allocator = StackProfile::Allocator::caching;
  const auto again = simulate(*model, options);
  CHECK(again->fits);
  CHECK(again->cache_returns > 0);
  options.cluster.gpu.memory = Bytes{1 << 20};
  CHECK_FALSE(simulate(*model, options)->fits);
}

TEST_CASE("the context takes its part of a GPU's memory", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{std::int64_t{1} << 40});
  const Bytes needed = simulate(*model, options)->peak_reserved;
  options.cluster.gpu.memory = needed + Bytes{1 << 20};
  options.stack.context = Bytes{1 << 20};
  CHECK(simulate(*model, options)->fits);
  options.stack.context = Bytes{2 << 20};
  CHECK_FALSE(simulate(*model, options)->fits);
  options.stack.context = Bytes{std::int64_t{1} << 40};
  CHECK(simulate(*model, options).status().code() == Code::invalid_argument);
}

TEST_CASE("operators and every k-th block lie between no and full checkpointing", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{std::int64_t{1} << 40});
  options.training.batch = 64;
  const auto peak = [&](ActivationCheckpointing kind, std::int32_t every) {
    options.training.checkpointing = kind;
    options.training.checkpoint_every = every;
    const auto summary = simulate(*model, options);
    REQUIRE(summary.ok());
    return summary->peak_reserved;
  };
  const Bytes none = peak(ActivationCheckpointing::none, 1);
  const Bytes full = peak(ActivationCheckpointing::full, 1);
  const Bytes operators = peak(ActivationCheckpointing::operators, 1);
  const Bytes second = peak(ActivationCheckpointing::full, 2);
  CHECK(full < operators);
  CHECK(operators < none);
  CHECK(full < second);
  CHECK(second < none);
}

}  // namespace tessera::sim
