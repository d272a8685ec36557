// SPDX-License-Identifier: Apache-2.0
// PowerSGD: exact at full rank, trains at rank 1, and moves what it says.
#include <catch2/catch.hpp>
#include <random>

#include "engine/schemes/replicate/hooks/low_rank.h"
#include "tessera/real_model.h"
#include "tessera/recording.h"
#include "tests/schemes/replicate/replicas.h"
#include "tests/schemes/replicate/watched_hook.h"

namespace tessera {
namespace {

using test::WatchedHook;

TEST_CASE("matrices are compressed iff that pays", "[reduce][powersgd]") {
  auto parameter = [](std::vector<std::int64_t> shape) {
    std::int64_t numel = 1;
    for (std::int64_t n : shape) numel *= n;
    return BucketParameter{.shape = std::move(shape), .numel = Numel{numel}};
  };
  auto compressed = [&](std::vector<std::int64_t> shape, std::int32_t rank, double rate) {
    return !plan_low_rank({parameter(std::move(shape))}, rank, rate).matrices.empty();
  };
  CHECK(compressed({10, 10}, 1, 2));         // 20 * 2 < 100
  CHECK_FALSE(compressed({10, 10}, 1, 5));   // 100 < 100 is false
  CHECK_FALSE(compressed({10, 10}, 3, 2));   // 120
  CHECK(compressed({10, 10}, 2, 2));         // 80
  CHECK_FALSE(compressed({1000}, 1, 0.01));  // a vector
  CHECK_FALSE(compressed({2, 2}, 1, 2));
  CHECK(compressed({10, 2, 5}, 1, 2));  // 10 x 10
  CHECK_FALSE(compressed({0, 4}, 1, 2));
}

TEST_CASE("at full rank PowerSGD approximates the mean", "[reduce][powersgd][numerics]") {
  const bool warm = GENERATE(false, true);
  const Rank ranks = GENERATE(1, 3);
  const Model model = test::g3();
  const auto hook = std::make_shared<WatchedHook>(power_sgd_hook({.rank = 100,
                                                                  .start_iteration = 2,
                                                                  .min_compression_rate = 0.01,
                                                                  .error_feedback = false,
                                                                  .warm_start = warm}));
  test::Replicas replicas(ranks, model, {.comm_hook = hook});
  test::require_ok(replicas.engine->initialise(test::initial_value));
  for (int step = 0; step < 5; ++step) {
    test::require_ok(run_training_step(*replicas.engine, model, test::formula_training(model)));
  }
  test::require_ok(replicas.runtime->finish());
  for (const auto& call : hook->calls) {
    for (std::size_t i = 0; i < call->after.at(0).size(); ++i) {
      float mean = 0;
      for (const auto& [rank, values] : call->before) mean += values[i] / static_cast<float>(ranks);
      CHECK(call->after.at(0)[i] == Approx(mean).epsilon(1e-3).margin(1e-5));
      for (const auto& [rank, values] : call->after) REQUIRE(values[i] == call->after.at(0)[i]);
    }
  }
}

TEST_CASE("what rank 1 loses comes back with error feedback", "[reduce][powersgd][numerics]") {
  const Model model = test::linear_model("one", {{"a", 12, 9}}, {"a"});
  const auto hook = std::make_shared<WatchedHook>(power_sgd_hook({.start_iteration = 2}));
  const Rank ranks = 2;
  test::Replicas replicas(ranks, model, {.comm_hook = hook});
  TrainingOptions training;
  training.adam.learning_rate = 0;
  training.body = [&](ModuleId, ModuleWork::Pass pass,
                      std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    return [](const BodyContext& context) {  // of full rank, the same in every step
      for (std::size_t k = 0; k < 2; ++k) {
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) {
          g[i] += static_cast<float>(
                      (i * i * 7 + i * 3 + static_cast<std::size_t>(context.rank())) % 11) -
                  5.0F;
        }
      }
    };
  };
  test::require_ok(replicas.engine->initialise(test::initial_value));
  const int steps = 80;
  for (int step = 0; step < steps; ++step) {
    test::require_ok(run_training_step(*replicas.engine, model, training));
  }
  double lost = 0, sum = 0, lost_once = 0;
  const auto& last = *hook->calls.back();
  for (std::size_t i = 0; i < 12 * 9; ++i) {
    const std::size_t at = i + static_cast<std::size_t>(last.bucket.parameters[1].offset.value);
    double mean = 0, sent = 0;
    for (const auto& [rank, values] : last.before) mean += values[at] / 2.0;
    for (int step = 2; step < steps; ++step) {
      sent += hook->calls[static_cast<std::size_t>(step)]->after.at(0)[at] / (steps - 2);
    }
    lost += (mean - sent) * (mean - sent);
    lost_once += (mean - last.after.at(0)[at]) * (mean - last.after.at(0)[at]);
    sum += mean * mean;
  }
  INFO("lost on average " << lost / sum << ", in one step " << lost_once / sum);
  CHECK(lost < 0.05 * sum);
  CHECK(lost_once > 0.1 * sum);
}

TEST_CASE("rank 1 trains a real model", "[reduce][powersgd][numerics]") {
  auto model = parse_model(
      R"({"tessera_model": 1, "name": "mlp", "root": {"class": "Net", "modules": [
      {"name": "in", "class": "Linear", "parameters": [{"name": "weight", "shape": [12, 8]},
                                                       {"name": "bias", "shape": [12]}]},
      {"name": "act", "class": "GELU"},
      {"name": "mid", "class": "Linear", "parameters": [{"name": "weight", "shape": [12, 12]}]},
      {"name": "out", "class": "Linear", "parameters": [{"name": "weight", "shape": [6, 12]}]}]}})",
      "test");
  REQUIRE(model.ok());
  const RealModelOptions data{.batch = 4, .seed = 3, .world_size = 3, .same_data_every_step = true};
  auto real = RealModel::create(*model, data);
  REQUIRE(real.ok());
  test::Replicas replicas(data.world_size, *model,
                          {.comm_hook = power_sgd_hook({.start_iteration = 2})});
  test::require_ok(replicas.engine->initialise(real->initial_values()));
  const TrainingOptions training{
      .batch = data.batch, .adam = {.learning_rate = 5e-3F}, .body = real->bodies()};
  float first = 0;
  for (int step = 0; step < 60; ++step) {
    test::require_ok(run_training_step(*replicas.engine, *model, training));
    if (step == 2) first = real->loss();
  }
  test::require_ok(replicas.runtime->finish());
  INFO("loss " << first << " to " << real->loss());
  CHECK(real->loss() < 0.7F * first);
}

TEST_CASE("PowerSGD all-reduces three times a bucket, and little", "[reduce][powersgd]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::linear_model("wide", {{"a", 64, 64}, {"b", 64, 64}}, {"a", "b"});
  auto engine = replicate(*runtime, model, {.comm_hook = power_sgd_hook({.start_iteration = 2})});
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) {
    recording.records.clear();
    test::require_ok(run_training_step(**engine, model, {}));
  }
  std::vector<std::int64_t> numels;
  for (const Record& r : recording.records) {
    if (const auto* op = std::get_if<AllReduce>(&r.op.what))
      numels.push_back(op->input.numel.value);
  }
  CHECK(numels == std::vector<std::int64_t>{2 * 64, 2 * 64, 2 * 64});  // biases, P, Q
}

TEST_CASE("PowerSGD refuses options that lose its state", "[reduce][powersgd][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::g3();
  auto refused = [&](const PowerSgdOptions& options, const std::string& part) {
    test::check_refused(replicate(*runtime, model, {.comm_hook = power_sgd_hook(options)}).status(),
                        part);
  };
  refused({.start_iteration = 1}, "start_iteration 1, must be at least 2");
  refused({.start_iteration = 0, .warm_start = false}, "start_iteration 0");
  refused({.start_iteration = 1, .error_feedback = false}, "start_iteration 1");
  refused({.rank = 0}, "rank 0, must be at least 1");
  const auto hook = power_sgd_hook();
  {
    auto engine = replicate(*runtime, model, {.comm_hook = hook});
    REQUIRE(engine.ok());
    const Model other = test::g3();
    test::check_refused(replicate(*runtime, other, {.comm_hook = hook}).status(),
                        "serves an engine already");
  }
  CHECK(replicate(*runtime, model, {.comm_hook = hook}).ok());  // which is gone now
  const auto stateless =
      power_sgd_hook({.start_iteration = 0, .error_feedback = false, .warm_start = false});
  auto engine = replicate(*runtime, model, {.comm_hook = stateless});
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) test::require_ok(run_training_step(**engine, model, {}));
}

}  // namespace
}  // namespace tessera
