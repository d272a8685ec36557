// SPDX-License-Identifier: Apache-2.0
// Real numbers through the simulator: what is gathered, reduced and stepped is right to the bit.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/numbers/number.h"
#include "tessera/fsdp1.h"
#include "tessera/fully_shard.h"
#include "tessera/replicate.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/random.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

using Values = std::map<std::int32_t, std::vector<float>>;  // by ParameterId

float initial(ParameterId id, Numel i) {
  return 0.01F * static_cast<float>(id.value + 1) + 0.001F * static_cast<float>(i.value % 17);
}

// The gradient that rank r finds for a parameter p in a micro-batch: any function of p will do.
float gradient(float p, Rank rank, std::int32_t micro_batch, std::size_t i) {
  return p * static_cast<float>(rank + 1) + 0.125F * static_cast<float>(micro_batch + 1) +
         0.01F * static_cast<float>(i % 5);
}

// AdamW without sharding, on the mean over ranks of the sums over micro-batches.
struct Reference {
  Values value, m, v;
  std::int64_t t = 0;
  DivideFactors factors;  // before and after the sum over ranks
  Index group;            // ranks summed first, then the sums of groups; 0: DDP

  Reference(const Model& model, DivideFactors divide, Index group_size)
      : factors(divide), group(group_size) {
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      const ParameterId id{static_cast<std::int32_t>(p)};
      auto& x = value[id.value];
      for (std::int64_t i = 0; i < model.parameters[p].numel().value; ++i) {
        x.push_back(initial(id, Numel{i}));
      }
      m[id.value].assign(x.size(), 0);
      v[id.value].assign(x.size(), 0);
    }
  }

  // DDP: every rank's share of the mean goes into the sum, on top of what .grad holds.
  static float bucket_gradient(float p, Rank ranks, const TrainingOptions& training,
                               std::size_t i) {
    std::vector<float> kept(static_cast<std::size_t>(ranks), 0);
    for (std::int32_t k = 0; k < training.accumulation; ++k) {
      float sum = 0;
      for (Rank r = 0; r < ranks; ++r) {
        float& grad = kept[static_cast<std::size_t>(r)];
        const float fresh = gradient(p, r, k, i);
        grad = k == 0 ? fresh : grad + fresh;
        const float share = grad * (1.0F / static_cast<float>(ranks));
        sum = r == 0 ? share : sum + share;
      }
      if (training.sync_every_micro_batch || k + 1 == training.accumulation) {
        for (float& grad : kept) grad = sum;
      }
    }
    return kept[0];
  }

  float mean_gradient(float p, Rank ranks, const TrainingOptions& training, std::size_t i) const {
    if (group == 0) return bucket_gradient(p, ranks, training, i);
    auto mean = [&](auto&& of_rank) {
      float sum = 0;
      for (Rank first = 0; first < ranks; first += group) {
        float of_group = of_rank(first) / factors.predivide;
        for (Rank r = first + 1; r < first + group; ++r) of_group += of_rank(r) / factors.predivide;
        sum = first == 0 ? of_group : sum + of_group;
      }
      return sum / factors.postdivide;
    };
    if (!training.sync_every_micro_batch) {
      return mean([&](Rank r) {
        float sum = gradient(p, r, 0, i);
        for (std::int32_t k = 1; k < training.accumulation; ++k) sum += gradient(p, r, k, i);
        return sum;
      });
    }
    float sum = mean([&](Rank r) { return gradient(p, r, 0, i); });
    for (std::int32_t k = 1; k < training.accumulation; ++k) {
      sum += mean([&](Rank r) { return gradient(p, r, k, i); });
    }
    return sum;
  }

  void step(Rank ranks, const TrainingOptions& training) {
    const AdamOptions& a = training.adam;
    ++t;
    float power1 = 1, power2 = 1;
    for (std::int64_t k = 0; k < t; ++k) {
      power1 *= a.beta1;
      power2 *= a.beta2;
    }
    for (auto& [id, x] : value) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float g = mean_gradient(x[i], ranks, training, i);
        float& m1 = m[id][i];
        float& v1 = v[id][i];
        m1 = a.beta1 * m1 + (1 - a.beta1) * g;
        v1 = a.beta2 * v1 + (1 - a.beta2) * g * g;
        const float decayed = x[i] * (1 - a.learning_rate * a.weight_decay);
        x[i] = decayed -
               a.learning_rate * (m1 / (1 - power1)) / (std::sqrt(v1 / (1 - power2)) + a.epsilon);
      }
    }
  }
};

TrainingOptions with_bodies(const Model& model, TrainingOptions training) {
  training.body = [&model](ModuleId module, ModuleWork::Pass pass,
                           std::int32_t micro_batch) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    const std::size_t count = model.module(module).parameters.size();
    return [count, micro_batch](const BodyContext& context) {
      for (std::size_t k = 0; k < count; ++k) {
        const auto p = context.read_as<float>(k);
        const auto g = context.write_as<float>(k);
        for (std::size_t i = 0; i < g.size(); ++i) {
          g[i] += gradient(p[i], context.rank(), micro_batch, i);
        }
      }
    };
  };
  return training;
}

// A scheme with random options, and how it divides.
struct Sharded {
  std::unique_ptr<Engine> engine;
  DivideFactors factors;
  Index group;
  std::string name;
};

Sharded fully_sharded(Runtime& runtime, const Model& model, const std::vector<std::string>& units,
                      test::Random& random) {
  FullyShardOptions options{.units = units};
  options.reshard_after_forward = static_cast<ReshardAfterForward>(random.below(3));
  auto engine = fully_shard(runtime, model, options);
  REQUIRE(engine.ok());
  return {std::move(*engine),
          {1, static_cast<float>(runtime.world().count())},
          runtime.world().count(),
          "fully_shard"};
}

Sharded flat_sharded(Runtime& runtime, const Model& model, const std::vector<std::string>& units,
                     test::Random& random) {
  const Rank ranks = runtime.world().count();
  Fsdp1Options options{.units = units};
  options.strategy = static_cast<ShardingStrategy>(random.below(5));
  if (options.strategy >= ShardingStrategy::hybrid_shard) {
    do
      options.shard_group = static_cast<Index>(1 + random.below(static_cast<std::uint64_t>(ranks)));
    while (ranks % options.shard_group != 0);
  }
  options.backward_prefetch = static_cast<BackwardPrefetch>(random.below(3));
  options.forward_prefetch = random.chance(50);
  options.limit_all_gathers = random.chance(50);
  options.use_orig_params = random.chance(50);
  options.offload_params = random.chance(30);
  auto engine = fsdp1(runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  return {std::move(*engine), divide_factors(ranks),
          options.shard_group == 0 ? ranks : options.shard_group,
          "fsdp1 strategy " + std::to_string(static_cast<int>(options.strategy))};
}

Sharded replicated(Runtime& runtime, const Model& model, test::Random& random) {
  ReplicateOptions options;
  options.first_bucket_cap = Bytes{static_cast<std::int64_t>(1 + random.below(200))};
  options.bucket_cap = Bytes{static_cast<std::int64_t>(1 + random.below(400))};
  options.find_unused_parameters = random.chance(30);
  options.gradient_as_bucket_view = random.chance(50);
  options.static_graph = random.chance(30);
  auto engine = replicate(runtime, model, options);
  REQUIRE(engine.ok());
  return {std::move(*engine), {}, 0, "replicate"};
}

Sharded any_scheme(Runtime& runtime, const Model& model, const std::vector<std::string>& units,
                   test::Random& random) {
  switch (random.below(4)) {
    case 0: return fully_sharded(runtime, model, units, random);
    case 1: return replicated(runtime, model, random);
    default: return flat_sharded(runtime, model, units, random);
  }
}

TEST_CASE("sharded training equals unsharded training to the bit", "[shard][numerics]") {
  const std::uint64_t seed = GENERATE(range(std::uint64_t{1}, test::generated(300) + 1));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Model model = test::g3();
  const auto ranks = static_cast<Rank>(1 + random.below(8));
  TrainingOptions training;
  training.accumulation = static_cast<std::int32_t>(1 + random.below(3));
  training.sync_every_micro_batch = random.chance(50);
  training.adam.weight_decay = random.chance(50) ? 0.1F : 0.0F;
  training = with_bodies(model, training);
  std::vector<std::string> units;
  for (const char* unit : {"L1", "L2", "L3", "emb"}) {
    if (random.chance(60)) units.emplace_back(unit);
  }

  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create(
      {.world_size = ranks, .cost = &costs, .seed = seed, .jitter = 0.2, .numerics = true});
  REQUIRE(runtime.ok());
  const Sharded sharded = any_scheme(**runtime, model, units, random);
  Engine& engine = *sharded.engine;
  INFO(sharded.name << ", ranks " << ranks << ", units " << units.size());
  REQUIRE(engine.initialise(initial).ok());
  Reference reference(model, sharded.factors, sharded.group);
  for (int step = 0; step < 4; ++step) {
    const Status status = run_training_step(engine, model, training);
    INFO(status.message());
    REQUIRE(status.ok());
    reference.step(ranks, training);
  }
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    std::vector<int> seen(static_cast<std::size_t>(model.parameters[p].numel().value), 0);
    const Status status = engine.inspect_shards(
        ParameterId{static_cast<std::int32_t>(p)},
        [&](Rank rank, Numel first, std::span<const float> values) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            INFO(model.parameters[p].name << " rank " << rank << " element " << i);
            const std::size_t at = static_cast<std::size_t>(first.value) + i;
            ++seen[at];
            REQUIRE(values[i] == reference.value[static_cast<std::int32_t>(p)][at]);
          }
        });
    REQUIRE(status.ok());
    for (int count : seen) REQUIRE(count == seen.front());  // as often as there are replicas
    CHECK(seen.front() >= 1);
  }
}

TEST_CASE("bfloat16 rounds to nearest even", "[numerics]") {
  CHECK(from_bfloat16(to_bfloat16(1.0F)) == 1.0F);
  CHECK(from_bfloat16(to_bfloat16(1.00390625F)) == 1.0F);       // a tie goes to the even neighbour
  CHECK(from_bfloat16(to_bfloat16(1.01171875F)) == 1.015625F);  // so does this one, upwards
  CHECK(std::isnan(from_bfloat16(to_bfloat16(NAN))));
  CHECK(std::isinf(from_bfloat16(to_bfloat16(3.4e38F))));
}

TEST_CASE("with bfloat16 parameters the modules see rounded values", "[shard][numerics]") {
  const Model model = test::g3();
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 3, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, model, {.units = {"L1"}, .param_dtype = DType::bfloat16});
  REQUIRE(engine.ok());
  REQUIRE((*engine)->initialise(initial).ok());
  int checked = 0;
  TrainingOptions training;
  training.body = [&](ModuleId module, ModuleWork::Pass pass,
                      std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::forward) return {};
    return [&, module](const BodyContext& context) {
      const ParameterId id = model.module(module).parameters[0];
      for (std::int64_t i = 0; i < model.parameter(id).numel().value; ++i, ++checked) {
        CHECK(load_number(context.read(0), DType::bfloat16, static_cast<std::size_t>(i)) ==
              from_bfloat16(to_bfloat16(initial(id, Numel{i}))));
      }
    };
  };
  REQUIRE(run_training_step(**engine, model, training).ok());
  CHECK(checked == 3 * (20 + 35 + 21 + 12 + 8));
}

}  // namespace
}  // namespace tessera
