// SPDX-License-Identifier: Apache-2.0
// replicate with real models: hooks that average give what unsharded training gives, to the bit.
#include <catch2/catch.hpp>

#include "tessera/replicate.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"
#include "tests/training/reference/real_models.h"
#include "tests/training/reference/unsharded_training.h"

namespace tessera {
namespace {

using test::require_ok;
using test::UnshardedTraining;

Model model_of(int number) {
  switch (number) {
    case 0: return test::mlp_chain();
    case 1: return test::tiny_gpt2();
    case 2: return test::repeated();
    default: return test::frozen_and_tied();
  }
}

void check_equal(Engine& engine, const Model& model, const UnshardedTraining& reference,
                 Rank ranks) {
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    const auto& expected = reference.values(id);
    std::size_t seen = 0;
    std::size_t different = 0;
    require_ok(engine.inspect_shards(id, [&](Rank, Numel, std::span<const float> values) {
      seen += values.size();
      for (std::size_t i = 0; i < values.size(); ++i) {
        different += values[i] == expected[i] ? 0U : 1U;
      }
    }));
    INFO(model.parameters[p].name);
    CHECK(different == 0);
    CHECK(seen == expected.size() * static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("replicate with an averaging hook trains as unsharded training does", "[numerics]") {
  using MakeHook = std::shared_ptr<CommHook> (*)();
  const Model model = model_of(GENERATE(range(0, 4)));
  const Rank ranks = GENERATE(1, 3, 4);
  const auto [make_hook, dtype] =
      GENERATE(table<MakeHook, DType>({{allreduce_hook, DType::float32},
                                       {bf16_compress_hook, DType::bfloat16},
                                       {fp16_compress_hook, DType::float16}}));
  const bool views = GENERATE(false, true);
  INFO(model.name << ", ranks " << ranks << ", " << name_of(dtype) << ", views " << views);
  const RealModelOptions data{.batch = 2, .sequence_length = 3, .seed = 5, .world_size = ranks};
  const test::TestCosts costs;
  auto runtime =
      sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = replicate(**runtime, model,
                          {.bucket_cap = Bytes{400},
                           .first_bucket_cap = Bytes{100},
                           .gradient_as_bucket_view = views,
                           .comm_hook = make_hook()});
  REQUIRE(engine.ok());
  auto real = RealModel::create(model, data);
  REQUIRE(real.ok());
  require_ok((*engine)->initialise(real->initial_values()));
  // The reference adds micro-batches up in the dtype of the reduction, replicate in its own.
  const std::int32_t accumulation = dtype == DType::float32 ? 2 : 1;
  const TrainingOptions training{.batch = data.batch,
                                 .sequence_length = data.sequence_length,
                                 .accumulation = accumulation,
                                 .sync_every_micro_batch = false,
                                 .body = real->bodies()};
  UnshardedTraining reference(model, data,
                              {.accumulation = accumulation,
                               .sync_every_micro_batch = false,
                               .pre = static_cast<float>(ranks),
                               .post = 1,
                               .reduce_dtype = dtype});
  for (int step = 0; step < 6; ++step) {
    require_ok(run_training_step(**engine, model, training));
    reference.step();
    CHECK(real->loss() == reference.loss());
  }
  check_equal(**engine, model, reference, ranks);
  require_ok((*runtime)->finish());
}

}  // namespace
}  // namespace tessera
