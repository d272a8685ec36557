// SPDX-License-Identifier: Apache-2.0
// Uneven inputs: training goes on with the ranks that have some, and ends equal everywhere.
#include "tessera/join.h"

#include <catch2/catch.hpp>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tests/random.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera {
namespace {

RankSet with_inputs(const std::vector<int>& inputs, int step) {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (step < inputs[r]) ranks.push_back(static_cast<Rank>(r));
  }
  return RankSet::of(std::move(ranks));
}

TEST_CASE("uneven inputs train as the mean over active ranks does, to the bit",
          "[reduce][join][numerics]") {
  const std::uint64_t seed = GENERATE(range(1, 61));
  test::Random random(seed);
  const auto ranks = static_cast<Rank>(1 + random.below(5));
  std::vector<int> inputs;
  for (Rank r = 0; r < ranks; ++r) inputs.push_back(static_cast<int>(random.below(5)));
  inputs[random.below(inputs.size())] = 4;
  ReplicateOptions options{.bucket_cap = Bytes{static_cast<std::int64_t>(1 + random.below(400))},
                           .first_bucket_cap = Bytes{100}};
  options.find_unused_parameters = random.chance(30);
  options.gradient_as_bucket_view = random.chance(50);
  options.static_graph = random.chance(30);
  const bool by_world = random.chance(50);
  INFO("seed=" << seed << ", ranks " << ranks << ", views " << options.gradient_as_bucket_view
               << ", unused " << options.find_unused_parameters << ", static "
               << options.static_graph << ", by world " << by_world);
  const Model model = test::g3();
  test::Replicas replicas(ranks, model, options);
  test::require_ok(replicas.engine->initialise(test::initial_value));
  test::FormulaTraining reference(model);
  auto join = Join::enter(*replicas.engine, {.divide_by_initial_world_size = by_world});
  REQUIRE(join.ok());
  for (int step = 0; !with_inputs(inputs, step).empty(); ++step) {
    const RankSet active = with_inputs(inputs, step);
    test::require_ok(join->step(active));
    test::require_ok(run_training_step(*replicas.engine, model, test::formula_training(model)));
    reference.step(active, ranks, static_cast<float>(by_world ? ranks : active.count()));
  }
  test::require_ok(join->finish());
  CHECK(join->warning().empty());
  reference.check(*replicas.engine, ranks);

  // After it all ranks work again.
  test::require_ok(run_training_step(*replicas.engine, model, test::formula_training(model)));
  reference.step(RankSet::all(ranks), ranks, static_cast<float>(ranks));
  test::require_ok(replicas.runtime->finish());
}

TEST_CASE("accumulation and hooks under join", "[reduce][join][numerics]") {
  using MakeHook = std::shared_ptr<CommHook> (*)();
  const auto make_hook = GENERATE(
      MakeHook{fp16_compress_hook}, MakeHook{allreduce_hook},
      MakeHook{[] { return power_sgd_hook({.start_iteration = 2, .min_compression_rate = 0.5}); }});
  const bool views = GENERATE(false, true);
  const Model model = test::g3();
  test::Replicas replicas(3, model,
                          {.bucket_cap = Bytes{200},
                           .first_bucket_cap = Bytes{100},
                           .gradient_as_bucket_view = views,
                           .comm_hook = make_hook()});
  test::require_ok(replicas.engine->initialise(
      [](ParameterId p, Numel i) { return static_cast<float>(p.value + i.value); }));
  auto join = Join::enter(*replicas.engine);
  REQUIRE(join.ok());
  TrainingOptions training = test::formula_training(model);
  training.accumulation = 2;
  training.sync_every_micro_batch = GENERATE(false, true);
  for (Rank left = 3; left > 0; --left) {
    test::require_ok(join->step(RankSet::all(left)));
    test::require_ok(run_training_step(*replicas.engine, model, training));
  }
  test::require_ok(join->finish());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    std::vector<float> first;  // rank 0's
    test::require_ok(replicas.engine->inspect_shards(
        ParameterId{static_cast<std::int32_t>(p)},
        [&](Rank rank, Numel, std::span<const float> values) {
          if (rank == 0) first.assign(values.begin(), values.end());
          CHECK(std::equal(values.begin(), values.end(), first.begin(), first.end()));
        }));
  }
  test::require_ok(replicas.runtime->finish());
}

// The collectives of a recording since its `from`-th record, as "kind name".
std::vector<std::string> collectives(const Recording& recording, std::size_t from) {
  std::vector<std::string> out;
  for (std::size_t k = from; k < recording.records.size(); ++k) {
    const Record& r = recording.records[k];
    if (r.kind != Record::Kind::op) continue;
    BufferId buffer;
    if (const auto* op = std::get_if<AllReduce>(&r.op.what)) buffer = op->output.buffer;
    if (const auto* op = std::get_if<Broadcast>(&r.op.what)) buffer = op->data.buffer;
    if (!buffer.valid()) continue;
    CHECK(r.where == RankSet::all(recording.world_size));
    out.push_back(recording.buffers[static_cast<std::size_t>(buffer.value)].name);
  }
  return out;
}

TEST_CASE("ranks that joined shadow every collective and nothing else", "[reduce][join]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::g3();
  auto engine = replicate(*runtime, model, {.first_bucket_cap = Bytes{100}});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine);
  REQUIRE(join.ok());
  const RankSet active = RankSet::of({1, 2});
  using Names = std::vector<std::string>;
  for (const auto& expected :
       {Names{"ranks_with_inputs", "requires_sync", "bucket 0"},
        Names{"ranks_with_inputs", "bucket_indices", "bucket_sizes", "requires_sync", "bucket 0",
              "bucket 1"},
        Names{"ranks_with_inputs", "requires_sync", "bucket 0", "bucket 1"}}) {
    const std::size_t before = recording.records.size();
    test::require_ok(join->step(active));
    test::require_ok(run_training_step(**engine, model, {}));
    CHECK(collectives(recording, before) == expected);
    for (std::size_t k = before; k < recording.records.size(); ++k) {
      const Record& r = recording.records[k];
      if (std::holds_alternative<Compute>(r.op.what) && !r.cause.module.empty()) {
        CHECK(r.where == active);
      }
    }
  }
  const std::size_t before = recording.records.size();
  test::require_ok(join->finish());
  CHECK(collectives(recording, before) == Names{"model_root", "coalesced_model"});
  for (const Record& r : recording.records) {
    const auto* op = std::get_if<Broadcast>(&r.op.what);
    if (op != nullptr && r.cause.phase == Phase::optimizer) CHECK(op->root == 2);
  }
}

TEST_CASE("what join refuses", "[reduce][join][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::g3();
  SECTION("other schemes") {
    auto engine = fully_shard(*runtime, model, {});
    REQUIRE(engine.ok());
    test::check_refused(Join::enter(**engine).status(), "Join is for engines made by replicate");
    return;
  }
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine, {.throw_on_early_termination = GENERATE(false, true)});
  REQUIRE(join.ok());
  SECTION("a second join") {
    test::check_refused(Join::enter(**engine).status(), "being joined already");
  }
  SECTION("nobody") { test::check_refused(join->step({}), "no rank has inputs"); }
  SECTION("strangers") {
    test::check_refused(join->step(RankSet::range(2, 7)), "ranks 4-6 cannot have inputs");
  }
  SECTION("a step without announcement") {
    test::require_ok(join->step(RankSet::all(4)));
    test::require_ok(run_training_step(**engine, model, {}));
    test::check_refused(run_training_step(**engine, model, {}), "step 1 began before Join::step");
  }
  SECTION("the middle of a step") {
    test::require_ok(join->step(RankSet::all(4)));
    test::require_ok((*engine)->begin_forward());
    test::check_refused(join->step(RankSet::all(4)), "Join::step was called in forward");
    test::check_refused(join->finish(), "Join::finish was called in forward");
  }
  SECTION("twice finished") {
    test::require_ok(join->step(RankSet::all(4)));
    test::require_ok(join->finish());
    test::check_refused(join->finish(), "called twice");
    test::check_refused(join->step(RankSet::all(4)), "after Join::finish");
  }
}

TEST_CASE("a rank that joined stays joined", "[reduce][join][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::g3();
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine);
  test::require_ok(join->step(RankSet::range(1, 4)));
  test::check_refused(join->step(RankSet::all(4)), "ranks 0 have joined");
}

TEST_CASE("early termination is an error on request", "[reduce][join][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::g3();
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine, {.throw_on_early_termination = true});
  test::require_ok(join->step(RankSet::all(4)));
  test::require_ok(run_training_step(**engine, model, {}));
  test::check_refused(join->step(RankSet::of({0, 2, 3})),
                      "step 1: ranks 1 ran out of inputs, which ends training on every rank");
}

TEST_CASE("more than 1000 shadow steps are worth a warning", "[reduce][join]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::linear_model("one", {{"a", 2, 2}}, {"a"});
  auto engine = replicate(*runtime, model, {});
  REQUIRE(engine.ok());
  auto join = Join::enter(**engine);
  for (int step = 0; step < 1000; ++step) {
    test::require_ok(join->step(RankSet::single(1)));
    test::require_ok(run_training_step(**engine, model, {}));
  }
  CHECK(join->warning().empty());
  test::require_ok(join->step(RankSet::single(1)));
  CHECK(join->warning().find("ranks 0 have shadowed more than 1000 steps") != std::string::npos);
}

}  // namespace
}  // namespace tessera
