// SPDX-License-Identifier: Apache-2.0
// Engines that train with real numbers, and all that they know.
#pragma once

#include <bit>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/checkpoint.h"
#include "tessera/optimizer_state.h"
#include "tessera/real_model.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/random.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"
#include "tests/temporary_folder.h"

namespace tessera::test {

/// The state on which training depends, on all ranks. Values are by parameter and rank: NaN where a
/// rank holds nothing.
struct Contents {
  std::vector<std::vector<float>> values;  // by ParameterId
  OptimizerState state;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

inline Contents contents_of(Engine& engine, const Model& model) {
  Contents all;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    all.values.emplace_back(static_cast<std::size_t>(model.parameters[p].numel().value));
    auto& values = all.values.back();
    require_ok(engine.inspect_shards(id, [&](Rank, Numel first, std::span<const float> shard) {
      std::copy(shard.begin(), shard.end(), values.begin() + first.value);
    }));
  }
  all.state = require_value(consolidate_optimizer_state(engine, {}));
  return all;
}

inline void check_same(const Contents& a, const Contents& b, const Model& model) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    INFO(model.parameters[p].name);
    CHECK(same_bits(a.values[p], b.values[p]));
  }
  REQUIRE(a.state.parameters.size() == b.state.parameters.size());
  for (std::size_t k = 0; k < a.state.parameters.size(); ++k) {
    const ParameterState& one = a.state.parameters[k];
    const ParameterState& other = b.state.parameters[k];
    INFO(one.name);
    CHECK(one.name == other.name);
    CHECK(one.step == other.step);
    CHECK(same_bits(one.exp_avg, other.exp_avg));
    CHECK(same_bits(one.exp_avg_sq, other.exp_avg_sq));
  }
}

/// All ranks of a numeric simulation in this process.
class SimulatedRun {
 public:
  SimulatedRun(const Model& model, const Scheme& scheme, Rank ranks, std::int64_t sequence = 1)
      : model_(model) {
    runtime_ = require_value(
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs_, .numerics = true}));
    engine_ = require_value(make_engine(*runtime_, model_, scheme));
    RealModelOptions data{.batch = 2, .sequence_length = sequence, .seed = 3, .world_size = ranks};
    data.same_data_every_step = true;
    real_ = std::make_unique<RealModel>(require_value(RealModel::create(model_, data)));
    training_.batch = 2;
    training_.sequence_length = sequence;
    training_.accumulation = 2;
    training_.adam.weight_decay = 0.125F;
    training_.body = real_->bodies();
    require_ok(engine_->initialise(real_->initial_values()));
  }

  Engine& engine() { return *engine_; }
  void step(float max_norm = 0) {
    training_.max_grad_norm = max_norm;
    require_ok(run_training_step(*engine_, model_, training_));
  }
  float loss() const { return real_->loss(); }
  Contents contents() { return contents_of(*engine_, model_); }
  void finish() { require_ok(runtime_->finish()); }

  /// By what was there before checkpoints.
  void set(const Contents& contents) {
    require_ok(engine_->initialise([&](ParameterId id, Numel i) {
      return contents.values[id.index()][static_cast<std::size_t>(i.value)];
    }));
    require_ok(load_optimizer_state(*engine_, contents.state));
  }

  void save(const std::string& directory, std::int64_t step, bool asynchronous = false) {
    auto checkpoints = require_value(Checkpointer::create(
        *engine_, {.directory = directory, .scheme = "test", .asynchronous = asynchronous}));
    require_ok(checkpoints->save(step, {{"sampler", "state"}}));
    require_ok(checkpoints->finish());
  }

 private:
  const Model model_;
  TestCosts costs_;
  std::unique_ptr<sim::LockstepRuntime> runtime_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RealModel> real_;
  TrainingOptions training_;
};

}  // namespace tessera::test
