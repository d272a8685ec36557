// SPDX-License-Identifier: Apache-2.0
// replicate on the numeric simulator, with gradients that are a formula; and the same training
// without engine.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tessera/replicate.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"

namespace tessera::test {

inline float initial_value(ParameterId id, Numel i) {
  return 0.01F * static_cast<float>(id.value + 1) + 0.001F * static_cast<float>(i.value % 17);
}

/// The gradient that a rank finds: any function of the parameter will do.
inline float gradient_of(float p, Rank rank, std::size_t i) {
  return p * static_cast<float>(rank + 1) + 0.125F + 0.01F * static_cast<float>(i % 5);
}

/// With a small epsilon the first steps of Adam would hide how large a gradient is.
inline AdamOptions formula_adam() { return {.epsilon = 1}; }

/// Backward passes of Linear models that add gradient_of.
inline TrainingOptions formula_training(const Model& model) {
  TrainingOptions training{.adam = formula_adam()};
  training.body = [&model](ModuleId module, ModuleWork::Pass pass,
                           std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    const std::size_t count = model.module(module).parameters.size();
    return [count](const BodyContext& context) {
      for (std::size_t k = 0; k < count; ++k) {
        const auto p = context.read_as<float>(k);
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] += gradient_of(p[i], context.rank(), i);
      }
    };
  };
  return training;
}

/// A world with numbers, replicated.
struct Replicas {
  TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Engine> engine;

  Replicas(Rank ranks, const Model& model, const ReplicateOptions& options) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    REQUIRE(made.ok());
    runtime = std::move(*made);
    auto replicated = replicate(*runtime, model, options);
    INFO(replicated.status().message());
    REQUIRE(replicated.ok());
    engine = std::move(*replicated);
  }
};

inline void check_refused(const Status& status, const std::string& part) {
  INFO(status.message());
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find(part) != std::string::npos);
}

/// AdamW on the mean over the active ranks, of every element by itself.
struct FormulaTraining {
  struct Element {
    float value, m = 0, v = 0;
    int t = 0;  // steps of its own
  };
  std::map<std::int32_t, std::vector<Element>> elements;  // by ParameterId
  AdamOptions adam = formula_adam();

  explicit FormulaTraining(const Model& model) {
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      const ParameterId id{static_cast<std::int32_t>(p)};
      for (std::int64_t i = 0; i < model.parameters[p].numel().value; ++i) {
        elements[id.value].push_back({initial_value(id, Numel{i})});
      }
    }
  }

  void step(const RankSet& active, Rank ranks, float divisor) {
    for (auto& [id, list] : elements) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        Element& e = list[i];
        ++e.t;
        float power1 = 1, power2 = 1;
        for (int k = 0; k < e.t; ++k) {
          power1 *= adam.beta1;
          power2 *= adam.beta2;
        }
        float g = 0;
        for (Rank r = 0; r < ranks; ++r) {
          const float own =
              active.contains(r) ? gradient_of(e.value, r, i) * (1.0F / divisor) : 0.0F;
          g = r == 0 ? own : g + own;
        }
        e.m = adam.beta1 * e.m + (1 - adam.beta1) * g;
        e.v = adam.beta2 * e.v + (1 - adam.beta2) * g * g;
        e.value -= adam.learning_rate * (e.m / (1 - power1)) /
                   (std::sqrt(e.v / (1 - power2)) + adam.epsilon);
      }
    }
  }

  /// Every rank of `engine` has these values, to the bit. 0 ranks: some do, of each element.
  void check(Engine& engine, Rank ranks) const {
    for (const auto& [id, list] : elements) {
      Rank seen = 0;
      std::size_t different = 0;
      require_ok(engine.inspect_shards(
          ParameterId{id}, [&, &elements = list](Rank, Numel first, std::span<const float> values) {
            ++seen;
            for (std::size_t i = 0; i < values.size(); ++i) {
              const auto at = static_cast<std::size_t>(first.value) + i;
              different += values[i] == elements[at].value ? 0U : 1U;
            }
          }));
      INFO("parameter " << id);
      CHECK((ranks == 0 ? seen > 0 : seen == ranks));
      CHECK(different == 0);
    }
  }
};

}  // namespace tessera::test
