// SPDX-License-Identifier: Apache-2.0
// A short training run of a language model that any runtime with numbers can carry out.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/language_model.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/sim/test_costs.h"
#include "tests/training/language/small_models.h"
#include "training/reference/data.h"

namespace tessera::test {

inline constexpr std::uint64_t language_seed = 5;

using Shards = std::map<ParameterId, std::map<Numel, std::vector<float>>>;

struct TrainedLanguage {
  std::map<Rank, std::vector<float>> losses;  // of all steps
  std::map<Rank, Shards> shards;
};

struct LanguageRun {
  Model model;
  Scheme scheme;
  LanguageModelOptions options{.batch = 2, .sequence_length = 5, .threads = 1};
  std::int32_t accumulation = 2;
  int steps = 3;
  std::vector<TrainingPass> passes;
};

// Large enough that activations are most of its memory.
inline LanguageRun run_of_eight_blocks() {
  LanguageRun run{.model = parsed(R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 16,
      "n_positions": 64, "n_embd": 64, "n_layer": 8, "n_head": 4})"),
                  .scheme = ReplicateOptions{}};
  run.options.batch = 4;
  run.options.sequence_length = 64;
  return run;
}

// Fills in the tokens that a RealModel of that seed makes up.
inline void fill(const LanguageRun& run, Rank rank, std::int64_t step, std::int32_t micro_batch,
                 std::span<std::int32_t> to) {
  const std::int64_t length = run.options.sequence_length;
  const std::int64_t vocabulary = run.model.parameters[0].shape[0];
  const real::DataPlace place{
      .seed = language_seed, .rank = rank, .step = step, .micro_batch = micro_batch};
  for (const std::int64_t shift : {0, 1}) {
    const real::Tensor ids = real::tokens(place, run.options.batch, length, shift, vocabulary);
    for (std::int64_t n = 0; n < run.options.batch * length; ++n) {
      const auto at = static_cast<std::size_t>(n / length * (length + 1) + n % length + shift);
      to[at] = static_cast<std::int32_t>(ids.values[static_cast<std::size_t>(n)]);
    }
  }
}

inline Status train(Runtime& runtime, const LanguageRun& run, const std::function<Status()>& poll,
                    const std::function<Status()>& finish, TrainedLanguage& out) {
  TESSERA_ASSIGN(const auto engine, make_engine(runtime, run.model, run.scheme));
  LanguageModelOptions options = run.options;
  Status polled;
  if (poll) {
    options.progress = [&] {
      if (polled.ok()) polled = poll();
    };
  }
  TESSERA_ASSIGN(const auto language, LanguageModel::create(run.model, options));
  TESSERA_TRY(language.take_workspace(runtime));
  TESSERA_TRY(engine->initialise(language.initial_values(language_seed)));
  TrainingOptions training;
  training.accumulation = run.accumulation;
  training.passes = run.passes;
  language.apply(training);
  int step = 0;
  language.set_data([&](Rank rank, std::int32_t micro_batch, std::span<std::int32_t> to) {
    fill(run, rank, step, micro_batch, to);
  });
  for (; step < run.steps; ++step) {
    language.set_dropout(language_seed, step);
    TESSERA_TRY(run_training_step(*engine, run.model, training));
    for (std::size_t p = 0; p < run.model.parameters.size(); ++p) {
      const ParameterId id{static_cast<std::int32_t>(p)};
      TESSERA_TRY(
          engine->inspect_shards(id, [&](Rank rank, Numel first, std::span<const float> values) {
            out.shards[rank][id][first].assign(values.begin(), values.end());
          }));
    }
    for (const RankRange& range : runtime.local_ranks().ranges()) {
      for (Rank r = range.begin; r < range.end; ++r) {
        auto& all = out.losses[r];
        const auto losses = language.losses(r);
        all.insert(all.end(), losses.begin(), losses.end());
      }
    }
  }
  TESSERA_TRY(language.release());
  TESSERA_TRY(polled);
  return finish();
}

inline TrainedLanguage simulated(const LanguageRun& run, Bytes* peak = nullptr, Rank world = 4) {
  const TestCosts costs;
  auto simulator = sim::LockstepRuntime::create(
      {.world_size = world, .cost = &costs, .processor = run.options.processor, .numerics = true});
  REQUIRE(simulator.ok());
  TrainedLanguage out;
  const Status trained = train(
      **simulator, run, {}, [&] { return (*simulator)->finish(); }, out);
  INFO(trained.message());
  REQUIRE(trained.ok());
  if (peak != nullptr) *peak = (*simulator)->peak_reserved();
  return out;
}

inline std::vector<std::pair<std::string, Scheme>> language_schemes(const std::string& block) {
  const std::vector<std::string> units = {block + "0", block + "1"};
  return {{"fully_shard", FullyShardOptions{.units = units}},
          {"full_shard", Fsdp1Options{.units = units, .use_orig_params = true}},
          {"replicate", ReplicateOptions{.bucket_cap = Bytes{2000}}},
          {"sharded_data_parallel", ShardedDataParallelOptions{.reduce_buffer_size = Numel{300}}},
          {"zero1", Zero12Options{.stage = 1}},
          {"zero3", Zero3Options{.prefetch_bucket = Numel{500}, .reduce_bucket = Numel{600}}}};
}

}  // namespace tessera::test
