// SPDX-License-Identifier: Apache-2.0
// One scheme after another with real numbers, for what must hold whatever the scheme.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/base/counted_memory.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera::test {

/// `index` below `count`.
inline Scheme scheme_at(int index, DType dtype = DType::float32) {
  switch (index) {
    case 0: return FullyShardOptions{.param_dtype = dtype, .reduce_dtype = dtype};
    case 1: return Fsdp1Options{.use_orig_params = true, .param_dtype = dtype};
    case 2:
      return Fsdp1Options{
          .strategy = ShardingStrategy::no_shard, .use_orig_params = true, .param_dtype = dtype};
    case 3: return ReplicateOptions{.dtype = dtype};
    case 4: return ShardedDataParallelOptions{.dtype = dtype};
    case 5: return Zero3Options{.param_dtype = dtype};
    case 6: return Zero12Options{.stage = 1, .param_dtype = dtype};
    default: return Zero12Options{.stage = 2, .param_dtype = dtype};
  }
}

struct EveryScheme {
  static constexpr int count = 8;

  TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<CountedMemory> memory;
  std::unique_ptr<Engine> engine;
  std::string name;
  bool flat = false;  // several parameters share a shard

  EveryScheme(const Scheme& scheme, Rank ranks, const Model& model) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    REQUIRE(made.ok());
    runtime = std::move(*made);
    memory = std::make_unique<CountedMemory>(*runtime);
    name = name_of(scheme);
    flat = std::holds_alternative<Fsdp1Options>(scheme) ||
           std::holds_alternative<Zero12Options>(scheme);
    auto chosen = make_engine(*memory, model, scheme);
    INFO(name << ": " << chosen.status().message());
    REQUIRE(chosen.ok());
    engine = std::move(*chosen);
    require_ok(engine->initialise(initial_value));
  }
  EveryScheme(int index, Rank ranks, const Model& model)
      : EveryScheme(scheme_at(index), ranks, model) {}

  std::vector<float> values(ParameterId parameter) const {
    std::vector<float> all;
    require_ok(engine->inspect_shards(parameter, [&](Rank, Numel, std::span<const float> some) {
      all.insert(all.end(), some.begin(), some.end());
    }));
    return all;
  }
  Bytes held(MemoryClass memory_class) const {
    Bytes sum{};
    for (Rank r = 0; r < memory->local_ranks().count(); ++r) sum += memory->held(memory_class, r);
    return sum;
  }
};

}  // namespace tessera::test
