// SPDX-License-Identifier: Apache-2.0
// The same losses, bit by bit, wherever a run is carried out.
#include "tessera/trainer.h"

#include <atomic>

#include "tessera/sim/lockstep_runtime.h"
#include "tests/backends/host/recorded_trace.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/sim/test_costs.h"
#include "tests/training/loop/training_scene.h"

namespace tessera {
namespace {

using test::RecordedTrace;
using test::Said;

constexpr std::int64_t steps = 20;
constexpr Rank ranks = 4;

struct Named {
  std::string name;
  Scheme scheme;
};

// Reductions over all ranks at once, as one rank accumulates.
std::vector<Named> flat_schemes() {
  const DType full = DType::float32;
  using Reshard = ReshardAfterForward;
  using Strategy = ShardingStrategy;
  const auto fsdp1 = [&](Strategy strategy) {
    return Fsdp1Options{.strategy = strategy, .param_dtype = full};
  };
  Zero3Options offloaded{.param_dtype = full};
  offloaded.offload_param.device = Offload::Device::cpu;
  offloaded.offload_optimizer.device = Offload::Device::cpu;
  return {
      {"fully_shard", FullyShardOptions{.param_dtype = full}},
      {"fully_shard, never resharded",
       FullyShardOptions{.reshard_after_forward = Reshard::never, .param_dtype = full}},
      {"fully_shard, offloaded", FullyShardOptions{.param_dtype = full, .offload_params = true}},
      {"full_shard", fsdp1(Strategy::full_shard)},
      {"shard_grad_op", fsdp1(Strategy::shard_grad_op)},
      {"no_shard", fsdp1(Strategy::no_shard)},
      {"replicate", ReplicateOptions{}},
      {"replicate, small buckets",
       ReplicateOptions{.bucket_cap = Bytes{900}, .gradient_as_bucket_view = true}},
      {"sharded_data_parallel", ShardedDataParallelOptions{}},
      {"sharded_data_parallel, small buckets",
       ShardedDataParallelOptions{.reduce_buffer_size = Numel{100}}},
      {"zero1", Zero12Options{.stage = 1, .param_dtype = full}},
      {"zero2", Zero12Options{.stage = 2, .overlap_comm = true, .param_dtype = full}},
      {"zero3", Zero3Options{.param_dtype = full}},
      {"zero3, compatible", Zero3Options{.policy = Zero3Policy::compatible, .param_dtype = full}},
      {"zero3, offloaded", offloaded},
  };
}

Said alone(const Model& model, const Scheme& scheme) {
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  Said said;
  const Status status = test::train(**runtime, model, test::small_options(scheme, ranks, steps),
                                    steps, said, [&] { return (*runtime)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
  return said;
}

Said simulated(const Model& model, const Scheme& scheme, TraceSink* sink = nullptr,
               bool validates = true) {
  const test::TestCosts costs;
  auto simulator = sim::LockstepRuntime::create(
      {.world_size = ranks,
       .cost = &costs,
       .numerics = true,
       .aio = {},
       .sink = sink,
       .recorded_ranks = sink != nullptr ? std::vector<Rank>{0, 1, 2, 3} : std::vector<Rank>{}});
  REQUIRE(simulator.ok());
  Said said;
  TrainerOptions options = test::small_options(scheme, 1, steps);
  if (!validates) options.validation.reset();
  const Status status =
      test::train(**simulator, model, options, steps, said, [&] { return (*simulator)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
  return said;
}

std::vector<Said> on_threads(const Model& model, const Scheme& scheme, TraceSink* sink = nullptr) {
  std::vector<Said> said(ranks);
  HostOptions options;
  auto look = std::make_shared<std::atomic<Time>>(0);
  options.clock = [look] { return *look += 1000; };
  options.deadline = std::numeric_limits<Time>::max();
  options.sink = sink;
  test::require_all_ok(test::on_threads(ranks, options, [&](ProcessRuntime& runtime, Rank rank) {
    return test::train(runtime, model, test::small_options(scheme, 1, steps), steps,
                       said[static_cast<std::size_t>(rank)], [&] { return runtime.finish(); });
  }));
  return said;
}

TEST_CASE("one rank that accumulates, four ranks and four simulated ranks lose the same",
          "[trainer]") {
  const Model model = test::small_gpt();
  const Said reference = alone(model, FullyShardOptions{.param_dtype = DType::float32});
  CHECK(reference.losses.front() == Approx(std::log(40)).margin(0.3));
  CHECK(reference.losses.back() < reference.losses.front());
  for (const auto& [name, scheme] : flat_schemes()) {
    INFO(name);
    const Said one = alone(model, scheme);
    CHECK(one.losses == reference.losses);
    CHECK(one.validation == reference.validation);
    const Said simulation = simulated(model, scheme);
    CHECK(simulation.losses == reference.losses);
    CHECK(simulation.validation == reference.validation);
    for (const Said& rank : on_threads(model, scheme)) CHECK(rank == simulation);
  }
}

TEST_CASE("dropout drops the same elements on any number of ranks", "[trainer]") {
  const Model model = test::small_dropping_gpt();
  const Said reference = alone(model, FullyShardOptions{.param_dtype = DType::float32});
  CHECK(reference.losses != alone(test::small_gpt(), ReplicateOptions{}).losses);
  CHECK(reference.losses.back() < reference.losses.front());
  for (const auto& [name, scheme] : flat_schemes()) {
    INFO(name);
    const Said simulation = simulated(model, scheme);
    CHECK(simulation.losses == reference.losses);
    CHECK(simulation.validation == reference.validation);
    if (name != "zero3" && name != "replicate") continue;
    CHECK(alone(model, scheme).losses == reference.losses);
    for (const Said& rank : on_threads(model, scheme)) CHECK(rank == simulation);
  }
}

TEST_CASE("Llama, groups of ranks and bfloat16 lose the same for real as simulated", "[trainer]") {
  const DType half = DType::bfloat16;
  const std::vector<Named> schemes = {
      {"fully_shard in groups", FullyShardOptions{.shard_group = 2, .param_dtype = half}},
      {"hybrid_shard", Fsdp1Options{.strategy = ShardingStrategy::hybrid_shard,
                                    .shard_group = 2,
                                    .param_dtype = DType::float32}},
      {"hybrid_shard_zero2", Fsdp1Options{.strategy = ShardingStrategy::hybrid_shard_zero2,
                                          .shard_group = 2,
                                          .param_dtype = half}},
      {"zero3", Zero3Options{.param_dtype = half}}};
  const Model model = test::small_grouped_llama();
  for (const auto& [name, scheme] : schemes) {
    INFO(name);
    const Said simulation = simulated(model, scheme);
    CHECK(simulation.losses.back() < simulation.losses.front());
    for (const Said& rank : on_threads(model, scheme)) CHECK(rank == simulation);
  }
}

TEST_CASE("float16 skips what overflows, on all ranks alike", "[trainer]") {
  const DType half = DType::float16;
  const std::vector<Named> schemes = {
      {"fully_shard", FullyShardOptions{.param_dtype = half}},
      {"fully_shard in groups", FullyShardOptions{.shard_group = 2, .param_dtype = half}},
      {"full_shard, reduced in float32",
       Fsdp1Options{.param_dtype = half, .reduce_dtype = DType::float32}},
      {"zero2", Zero12Options{.stage = 2, .param_dtype = half}},
      {"zero3", Zero3Options{.param_dtype = half}}};
  for (const auto& [name, scheme] : schemes) {
    INFO(name);
    const Said simulation = simulated(test::small_gpt(), scheme);
    CHECK(simulation.losses.back() < simulation.losses.front());
    CHECK(simulation.skipped.front());
    CHECK(!simulation.skipped.back());
    for (std::size_t k = 1; k < simulation.scales.size(); ++k) {
      const float before = simulation.scales[k - 1];
      const float now = simulation.scales[k];
      CHECK((simulation.skipped[k - 1] ? now == before / 2 : now == before || now == before * 2));
    }
    for (const Said& rank : on_threads(test::small_gpt(), scheme)) CHECK(rank == simulation);
  }
}

TEST_CASE("a scale that cannot shrink any more ends the run with a sentence", "[trainer]") {
  TrainerOptions options =
      test::small_options(FullyShardOptions{.param_dtype = DType::float16}, 1, steps);
  options.loss_scale = {.initial_scale = 0x1p24F, .min_scale = 0x1p23F};
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  Said said;
  const Status status = test::train(**runtime, test::small_gpt(), options, steps, said,
                                    [&] { return (*runtime)->finish(); });
  CHECK(status.message().find("loss scale already at minimum") != std::string::npos);
  CHECK(said.skipped == std::vector<bool>{true});
}

TEST_CASE("a loss scale without float16 is refused", "[trainer]") {
  TrainerOptions options = test::small_options(FullyShardOptions{}, 1, steps);
  options.loss_scale = LossScaleOptions{};
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  Said said;
  const Status status = test::train(**runtime, test::small_gpt(), options, steps, said,
                                    [&] { return (*runtime)->finish(); });
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() ==
        "TrainerOptions::loss_scale is for float16 alone, but modules compute in float32: leave it "
        "unset");
}

TEST_CASE("a real run's operations are the simulated ones, in the same order", "[trainer]") {
  const Model model = test::small_gpt();
  for (const auto& [name, scheme] : flat_schemes()) {
    INFO(name);
    RecordedTrace simulation;
    simulated(model, scheme, &simulation);
    RecordedTrace real;
    on_threads(model, scheme, &real);
    CHECK(real.order.size() > 800);
    CHECK(real.order == simulation.order);
  }
}

TEST_CASE("training goes on after a validation as if there had been none", "[trainer]") {
  const Model model = test::small_gpt();
  for (const auto& [name, scheme] : flat_schemes()) {
    INFO(name);
    const Said validated = simulated(model, scheme);
    const Said trained = simulated(model, scheme, nullptr, false);
    CHECK(validated.validation.size() == 4);
    CHECK(validated.validation.back() < validated.validation.front());
    CHECK(trained.losses == validated.losses);
    CHECK(trained.norms == validated.norms);
  }
}

TEST_CASE("validation needs data", "[trainer]") {
  const Model model = test::small_gpt();
  const Corpus corpus = test::small_corpus();
  TrainerOptions options = test::small_options(ReplicateOptions{}, 1, steps);
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  options.validation->tokens = {{.tokens = {.first = 492, .count = 8}}};
  CHECK(Trainer::create(**runtime, model, corpus, options).status().message() ==
        "text (for validation): 8 tokens are too few: a sequence of 8 needs 9, the last one as its "
        "target: use more data or shorter sequences");
  options.validation.reset();
  auto trainer = Trainer::create(**runtime, model, corpus, options);
  REQUIRE(trainer.ok());
  CHECK((*trainer)->validate().status().code() == Code::invalid_argument);
  REQUIRE((*trainer)->finish().ok());
  REQUIRE((*runtime)->finish().ok());
}

TEST_CASE("a trainer goes on from its state, and refuses those of others", "[trainer]") {
  const Model model = test::small_gpt();
  const Corpus corpus = test::small_corpus();
  const TrainerOptions options = test::small_options(ReplicateOptions{}, 1, steps);
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  auto trainer = Trainer::create(**runtime, model, corpus, options);
  REQUIRE(trainer.ok());
  for (int k = 0; k < 3; ++k) REQUIRE((*trainer)->step().ok());
  auto state = (*trainer)->state();
  const std::string place = R"({"step":3,"epoch":0,"position":6,"seed":"5")";
  CHECK(state.at("trainer").find(place + R"(,"sequence_length":8,"tokens":400,"fingerprint":")") ==
        0);
  REQUIRE((*trainer)->resume(state).ok());
  CHECK((*trainer)->steps_done() == 3);
  auto refused = [&](const std::string& json) {
    state["trainer"] = json;
    const Status status = (*trainer)->resume(state);
    CHECK_FALSE(status.ok());
    return status.message();
  };
  CHECK(refused(R"({"step":3,"epoch":0,"position":6,"seed":"6"})") ==
        "the run to resume has seed 6, this one 5: use the same, or resume anyway if another order "
        "of samples is meant");
  CHECK(refused(place + R"(,"sequence_length":16,"tokens":400,"fingerprint":"7"})")
            .find("has sequence length 16, this one 8") != std::string::npos);
  CHECK(refused(R"({"step":3,"epoch":0,"position":6,"seed":"6","sequence_length":16,"tokens":401,)"
                R"("fingerprint":"7"})") ==
        "the run to resume has seed 6, this one 5; the run to resume has sequence length 16, this "
        "one 8; the run to resume has tokens to train on: 401, this one 400: use the same, or "
        "resume anyway if another order of samples is meant");
  CHECK(refused(place + R"(,"sequence_length":8,"tokens":401,"fingerprint":"7"})")
            .find("tokens to train on: 401, this one 400") != std::string::npos);
  CHECK(refused(place + R"(,"sequence_length":8,"tokens":400,"fingerprint":"7"})")
            .find("has other tokens than the data of the run") != std::string::npos);
  CHECK((*trainer)->warnings(steps).empty());
  CHECK((*trainer)->resume(state, true).ok());
  CHECK((*trainer)->warnings(steps) ==
        std::vector<std::string>{"text has other tokens than the data of the run to resume"});
  CHECK((*trainer)->state().at("trainer").find(R"("fingerprint":"7")") == std::string::npos);
  state["trainer"] = place + "}";  // as 0.1 has written it
  CHECK((*trainer)->resume(state).ok());
  CHECK(refused(R"({"step":3,"epoch":0,"position":600,"seed":"5"})").find("no place in these") !=
        std::string::npos);
  CHECK(refused(R"({"step":3})").find("epoch") != std::string::npos);
  CHECK(refused("{").find("the trainer's state") == 0);
  state.clear();
  CHECK_FALSE((*trainer)->resume(state).ok());
  REQUIRE((*trainer)->finish().ok());
  REQUIRE((*runtime)->finish().ok());
}

TEST_CASE("a model that cannot be trained is refused before memory is taken for it", "[trainer]") {
  auto mixtral = parse_model(R"({"architectures": ["MixtralForCausalLM"], "vocab_size": 40,
      "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2})",
                             "mixtral");
  REQUIRE(mixtral.ok());
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  auto trainer = Trainer::create(**runtime, *mixtral, test::small_corpus(),
                                 test::small_options(FullyShardOptions{}, 1, steps));
  REQUIRE(!trainer.ok());
  CHECK(trainer.status().message().find("MixtralSparseMoeBlock") != std::string::npos);
  CHECK((*runtime)->peak_reserved() == Bytes{0});
}

}  // namespace
}  // namespace tessera
