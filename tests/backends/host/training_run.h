// SPDX-License-Identifier: Apache-2.0
// One short training run that any runtime with numbers can carry out, and what came of it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/real_model.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/backends/host/listing_runtime.h"
#include "tests/sim/test_costs.h"
#include "tests/training/reference/real_models.h"

namespace tessera::test {

// Rank r's shards by parameter, and what training said.
struct Trained {
  std::map<ParameterId, std::map<Numel, std::vector<float>>> shards;
  std::vector<float> losses;
};

inline constexpr int training_run_steps = 3;

struct Run {
  Model model;
  Scheme scheme;
  Rank ranks = 1;
  int steps = training_run_steps;
  TrainingOptions training;
  RealModelOptions data;
};

using Finish = std::function<Status()>;

// `of_rank` says where to put what rank r has in the end. Bodies belong to the engine and may run
// until `finish`.
inline Status train(Runtime& runtime, const Run& run, const std::function<Trained&(Rank)>& of_rank,
                    const Finish& finish) {
  TESSERA_ASSIGN(const auto engine, make_engine(runtime, run.model, run.scheme));
  TESSERA_ASSIGN(const RealModel real, RealModel::create(run.model, run.data));
  TESSERA_TRY(engine->initialise(real.initial_values()));
  TrainingOptions training = run.training;
  training.body = real.bodies();
  for (int step = 0; step < run.steps; ++step) {
    TESSERA_TRY(run_training_step(*engine, run.model, training));
  }
  for (std::size_t p = 0; p < run.model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    TESSERA_TRY(
        engine->inspect_shards(id, [&](Rank rank, Numel first, std::span<const float> values) {
          of_rank(rank).shards[id][first].assign(values.begin(), values.end());
        }));
  }
  TESSERA_TRY(finish());
  for (const RankRange& range : runtime.local_ranks().ranges()) {
    for (Rank r = range.begin; r < range.end; ++r) {
      const auto losses = real.losses(r);
      of_rank(r).losses.assign(losses.begin(), losses.end());
    }
  }
  return {};
}

inline std::vector<std::pair<std::string, Scheme>> schemes() {
  return {
      {"fully_shard", FullyShardOptions{.units = {"pair", "shared"}}},
      {"fully_shard, groups of 2", FullyShardOptions{.units = {"pair"}, .shard_group = 2}},
      {"fully_shard, bfloat16, groups of 2", FullyShardOptions{.units = {"pair"},
                                                               .shard_group = 2,
                                                               .param_dtype = DType::bfloat16,
                                                               .reduce_dtype = DType::float32}},
      {"full_shard", Fsdp1Options{.units = {"pair"}, .use_orig_params = true}},
      {"shard_grad_op", Fsdp1Options{.units = {"shared"},
                                     .strategy = ShardingStrategy::shard_grad_op,
                                     .use_orig_params = true}},
      {"no_shard", Fsdp1Options{.strategy = ShardingStrategy::no_shard, .use_orig_params = true}},
      {"replicate", ReplicateOptions{.bucket_cap = Bytes{100}, .first_bucket_cap = Bytes{60}}},
      {"sharded_data_parallel", ShardedDataParallelOptions{.reduce_buffer_size = Numel{30}}},
      {"zero1", Zero12Options{.stage = 1, .reduce_bucket = Numel{25}}},
      {"zero2", Zero12Options{.stage = 2, .allgather_bucket = Numel{20}, .overlap_comm = true}},
      {"zero3", Zero3Options{.prefetch_bucket = Numel{20}, .reduce_bucket = Numel{25}}}};
}

inline Run training_run(const Scheme& scheme, Rank ranks) {
  Run run{.model = repeated(), .scheme = scheme, .ranks = ranks, .training = {}, .data = {}};
  run.training.accumulation = 2;
  run.training.batch = run.data.batch = 2;
  run.training.max_grad_norm = 0.5F;
  run.data.world_size = ranks;
  run.data.seed = 11;
  return run;
}

/// By rank. Adds the highest reserved memory of any, and what the runtime was asked for.
inline std::vector<Trained> simulated(const Run& run, Bytes& peak,
                                      std::vector<std::string>* calls = nullptr) {
  const TestCosts costs;
  auto simulator =
      sim::LockstepRuntime::create({.world_size = run.ranks, .cost = &costs, .numerics = true});
  REQUIRE(simulator.ok());
  std::vector<Trained> all(static_cast<std::size_t>(run.ranks));
  std::vector<std::string> ignored;
  ListingRuntime listed(**simulator, calls == nullptr ? ignored : *calls);
  const Status trained = train(
      listed, run, [&](Rank r) -> Trained& { return all[static_cast<std::size_t>(r)]; },
      [&] { return (*simulator)->finish(); });
  INFO(trained.message());
  REQUIRE(trained.ok());
  peak = (*simulator)->peak_reserved();
  return all;
}

}  // namespace tessera::test
