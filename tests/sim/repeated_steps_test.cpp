// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "sim/lockstep/step_calls.h"
#include "tessera/fully_shard.h"
#include "tessera/sim/simulate.h"
#include "tessera/storage/trace_writer.h"
#include "tests/base/models.h"
#include "tests/sim/test_costs.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

struct Run {
  std::string hash;
  sim::SimulateSummary summary;
};

Model small_llama() {
  auto model = parse_model(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 3, "vocab_size": 128,
      "num_attention_heads": 4, "max_position_embeddings": 64})",
                           "small");
  REQUIRE(model.ok());
  return *model;
}

Run run(const test::TemporaryFolder& folder, sim::SimulateOptions options, bool repeats) {
  const std::string path = folder.path() + (repeats ? "/repeated.tessera" : "/own.tessera");
  auto writer = storage::TraceWriter::create(path, {});
  REQUIRE(writer.ok());
  options.sink = writer->get();
  options.repeats = repeats;
  auto summary = sim::simulate(small_llama(), options);
  INFO(summary.status().message());
  REQUIRE(summary.ok());
  REQUIRE((*writer)->finish().ok());
  return {(*writer)->content_hash(), *summary};
}

TEST_CASE("steps that repeat leave the trace that their program leaves, for every scheme",
          "[sim][lockstep]") {
  const test::TemporaryFolder folder;
  const char* const profiles[] = {"eager", "torchtitan", "fused"};
  int k = 0;
  for (const std::string& name : scheme_names()) {
    const char* const profile = profiles[k++ % 3];
    INFO(name << " as " << profile);
    sim::SimulateOptions options{
        .seed = 7, .jitter = 0.05, .slow_ranks = {{.rank = 3, .factor = 1.1}}, .steps = 12};
    options.cluster = *sim::load_cluster("dgx-h100", 2);
    options.stack = *sim::load_profile(profile);
    options.scheme = *scheme_named(name);
    if (auto* fsdp1 = std::get_if<Fsdp1Options>(&options.scheme); name.starts_with("hybrid")) {
      fsdp1->shard_group = 8;
    }
    options.training = {.batch = 1, .sequence_length = 64, .accumulation = 1 + k % 2};
    options.recorded_ranks = {0, 3, 9};
    const Run own = run(folder, options, false);
    const Run repeated = run(folder, options, true);
    // zero3 numbers its gathers from the first step on, so that its buffers have other names.
    CHECK((repeated.summary.repeated_steps >= 4) == (name != "zero3"));
    CHECK(own.summary.repeated_steps == 0);
    CHECK(repeated.hash == own.hash);
    CHECK(repeated.summary.op_ranks == own.summary.op_ranks);
    CHECK(repeated.summary.peak_reserved == own.summary.peak_reserved);
  }
}

TEST_CASE("steps that differ are never repeated", "[sim][lockstep]") {
  static const test::TestCosts costs;
  const Model model = test::g3();
  auto runtime =
      sim::LockstepRuntime::create({.world_size = 4, .ranks_per_node = 2, .cost = &costs});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, model, {.units = {"L1", "L2", "L3"}});
  REQUIRE(engine.ok());
  for (int step = 0; step < 8; ++step) {
    TrainingOptions training;
    training.accumulation = 1 + step % 2;
    REQUIRE(run_training_step(**engine, model, training).ok());
    CHECK_FALSE((*runtime)->step_repeats());
  }
}

TEST_CASE("one call that differs is enough", "[sim][lockstep]") {
  using sim::OpCall;
  using sim::RequestCall;
  using sim::StepCalls;
  const auto step = [](std::int32_t k, StreamId waits_for, Bytes bytes) {
    const Cause cause{.unit = "u", .step = k};
    StepCalls calls;
    calls.add(RequestCall(BufferId{k}, {.bytes = bytes, .cause = cause, .name = "buffer"}));
    Op op{.stream = StreamId{0}, .where = RankSet::all(2), .after = {}, .cause = cause, .what = {}};
    op.what = Wait{waits_for};
    calls.add(OpCall(op, {}, EventId{k}, EventId{k}, {}));
    return calls;
  };
  StepCalls before = step(4, StreamId{1}, Bytes{8});
  StepCalls same = step(5, StreamId{1}, Bytes{8});
  CHECK(same.follow(before));
  CHECK_FALSE(step(5, StreamId{2}, Bytes{8}).follow(before));
  CHECK_FALSE(step(5, StreamId{1}, Bytes{9}).follow(before));
  CHECK_FALSE(step(6, StreamId{1}, Bytes{8}).follow(before));
  before.advance();
  CHECK(step(6, StreamId{1}, Bytes{8}).follow(before));
  StepCalls spoilt = step(7, StreamId{1}, Bytes{8});
  spoilt.spoil();
  CHECK_FALSE(spoilt.follow(step(6, StreamId{1}, Bytes{8})));
}

}  // namespace
}  // namespace tessera
