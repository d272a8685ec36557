// SPDX-License-Identifier: Apache-2.0
// What torch 2.15 trained where not all ranks train one model alike, as
// tests/golden/torch_2_15/groups.py recorded it, and the same training here.
#pragma once

#include "tessera/sim/lockstep_runtime.h"
#include "tests/schemes/recorded_torch.h"
#include "tests/sim/test_costs.h"

namespace tessera::test {

/// The process groups that a run was recorded in.
inline RankGroups groups_of(const RunJson& run) {
  return require_value(RankGroups::of(run["groups"].get<std::vector<std::vector<Rank>>>()));
}

/// The recorded runs of one kind.
inline std::vector<RunJson> recorded_groups(const std::string& kind,
                                            const std::string& folder = "torch_2_15") {
  std::vector<RunJson> out;
  for (RunJson& run : recorded_runs("groups.json", folder)) {
    if (run["kind"] == kind) out.push_back(std::move(run));
  }
  CHECK(out.size() >= 12);
  return out;
}

inline float recorded_initial_value(ParameterId id, Numel i) {
  return 0.01F * static_cast<float>(id.value + 1) + 0.001F * static_cast<float>(i.value % 17);
}

/// Backward passes that find the recorder's gradients.
inline TrainingOptions recorded_training(const Model& model) {
  TrainingOptions training{.adam = {.learning_rate = 0.01F, .epsilon = 1}};
  training.body = [&model](ModuleId module, ModuleWork::Pass pass,
                           std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    std::vector<std::size_t> trained;
    const auto& parameters = model.module(module).parameters;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (model.parameter(parameters[k]).requires_grad) trained.push_back(k);
    }
    return [trained](const BodyContext& context) {
      for (std::size_t k = 0; k < trained.size(); ++k) {
        const auto p = context.read_as<float>(trained[k]);
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) {
          g[i] += p[i] * static_cast<float>(context.rank() + 1) + 0.125F +
                  0.01F * static_cast<float>(i % 5);
        }
      }
    };
  };
  return training;
}

struct RecordedWorld {
  TestCosts costs;
  Model model;
  std::unique_ptr<sim::LockstepRuntime> runtime;

  explicit RecordedWorld(const RunJson& run)
      : model(require_value(parse_model(run["tree"].dump(), "tree"))) {
    runtime = require_value(sim::LockstepRuntime::create(
        {.world_size = run["ranks"].get<Rank>(), .cost = &costs, .numerics = true}));
  }

  void train(const RunJson& run, Engine& engine) {
    require_ok(engine.initialise(recorded_initial_value));
    TrainingSteps steps(engine, model);
    for (const RunJson& pass : run["passes"]) {
      const bool trains = pass[0] == "train";
      const bool syncs = pass[1].value("sync", true);
      const auto kind = !trains ? TrainingPass::Kind::step
                        : syncs ? TrainingPass::Kind::train
                                : TrainingPass::Kind::accumulate;
      TrainingOptions options = recorded_training(model);
      options.passes = {{kind, ""}};
      require_ok(steps.run(options));
    }
    require_ok(runtime->finish());
  }
};

/// Every rank that was trained there has the same values here, to the rounding of sums.
inline void check_values(Engine& engine, const Model& model, const RunJson& found) {
  for (std::size_t p = 0, base = 0; p < model.parameters.size(); ++p) {
    require_ok(engine.inspect_shards(
        ParameterId{static_cast<std::int32_t>(p)},
        [&](Rank rank, Numel first, std::span<const float> values) {
          const RunJson& said = found[static_cast<std::size_t>(rank)];
          const RunJson& expected = said.is_number() ? found[said.get<std::size_t>()] : said;
          if (expected.is_null()) return;
          for (std::size_t i = 0; i < values.size(); ++i) {
            const double want = expected[base + static_cast<std::size_t>(first.value) + i];
            INFO("rank " << rank << ", " << model.parameters[p].name << " element " << i);
            REQUIRE(std::abs(values[i] - want) <= 1e-5 * std::abs(want) + 1e-7);
          }
        }));
    base += static_cast<std::size_t>(model.parameters[p].numel().value);
  }
}

}  // namespace tessera::test
