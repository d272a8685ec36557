// SPDX-License-Identifier: Apache-2.0
// sharded_data_parallel on recording and numeric runtimes, and its collectives as readable lines.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tessera/recording.h"
#include "tessera/sharded_data_parallel.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera::test {

/// The model of the recorded runs: w0 32, b0 8, w1 64, b1 8, w2 16, b2 2 elements.
inline Model mlp() {
  return linear_model("mlp", {{"l0", 4, 8}, {"l1", 8, 8}, {"l2", 8, 2}}, {"l0", "l1", "l2"});
}

inline std::unique_ptr<ShardedDataParallel> owned(Runtime& runtime, const Model& model,
                                                  const ShardedDataParallelOptions& options = {}) {
  auto engine = sharded_data_parallel(runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// Decisions without numbers.
struct RecordedOwners {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<ShardedDataParallel> engine;

  RecordedOwners(Rank ranks, const Model& model, const ShardedDataParallelOptions& options = {})
      : runtime(make_recording_runtime(ranks, recording)),
        engine(owned(*runtime, model, options)) {}

  /// "reduce 58 to 0", "broadcast 72 from 1" of the records since the last call.
  std::vector<std::string> collectives() {
    std::vector<std::string> lines;
    for (; seen < recording.records.size(); ++seen) {
      const Record& r = recording.records[seen];
      if (const auto* reduce = std::get_if<Reduce>(&r.op.what)) {
        lines.push_back(fmt::format("reduce {} to {}", reduce->input.numel.value, reduce->root));
      } else if (const auto* sent = std::get_if<Broadcast>(&r.op.what)) {
        lines.push_back(fmt::format("broadcast {} from {}", sent->data.numel.value, sent->root));
      }
    }
    return lines;
  }
  std::size_t seen = 0;
};

/// Real numbers on every rank.
struct NumericOwners {
  TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<ShardedDataParallel> engine;

  NumericOwners(Rank ranks, const Model& model, const ShardedDataParallelOptions& options = {}) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    REQUIRE(made.ok());
    runtime = std::move(*made);
    engine = owned(*runtime, model, options);
    require_ok(engine->initialise(initial_value));
  }
};

/// As formula_training, for models of which a part is frozen.
inline TrainingOptions partly_frozen_training(const Model& model) {
  TrainingOptions training{.adam = formula_adam()};
  training.body = [&model](ModuleId module, ModuleWork::Pass pass,
                           std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    return [&model, module](const BodyContext& context) {
      const auto& ids = model.module(module).parameters;
      std::size_t trained = 0;
      for (std::size_t k = 0; k < ids.size(); ++k) {
        if (!model.parameter(ids[k]).requires_grad) continue;
        const auto p = context.read_as<float>(k);
        const auto g = context.write_as<float>(trained++);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] += gradient_of(p[i], context.rank(), i);
      }
    };
  };
  return training;
}

/// Forward and backward of `modules` by hand, all of `forward` and then backward as listed.
inline Status pass(Engine& engine, const Model& model, const std::vector<std::string>& forward,
                   const std::vector<std::string>& backward) {
  const TrainingOptions bodies = partly_frozen_training(model);
  TESSERA_TRY(engine.begin_forward());
  for (const auto& path : forward) {
    TESSERA_TRY(engine.compute({.module = model.find_module(path)}));
  }
  TESSERA_TRY(engine.begin_backward());
  for (const auto& path : backward) {
    const ModuleId id = model.find_module(path);
    ModuleWork work{.module = id, .pass = ModuleWork::Pass::backward};
    work.body = bodies.body(id, work.pass, 0);
    TESSERA_TRY(engine.compute(work));
    for (ParameterId p : model.module(id).parameters) {
      if (model.parameter(p).requires_grad) TESSERA_TRY(engine.grad_ready(p));
    }
  }
  return engine.end_backward();
}

inline Status pass(Engine& engine, const Model& model) {
  return pass(engine, model, {"l0", "l1", "l2"}, {"l2", "l1", "l0"});
}

}  // namespace tessera::test
