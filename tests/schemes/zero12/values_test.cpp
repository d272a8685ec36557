// SPDX-License-Identifier: Apache-2.0
// What the modules see: masters and frozen parameters, rounded to the dtype of forward, on every
// rank. (That training equals unsharded training is tests/numerics.)
#include <catch2/catch.hpp>

#include "engine/numbers/number.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/summon.h"
#include "tessera/zero12.h"
#include "tests/schemes/zero3/net3.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

float value_of(ParameterId id, Numel i) {
  return static_cast<float>(id.value + 1) + static_cast<float>(i.value) / 1024.0F;
}

struct Numeric {
  const test::TestCosts costs;
  std::unique_ptr<sim::LockstepRuntime> runtime;
  const Model model = test::net3({.first_frozen = true});
  std::unique_ptr<Engine> engine;

  Numeric(Rank ranks, const Zero12Options& options) {
    auto made =
        sim::LockstepRuntime::create({.world_size = ranks, .cost = &costs, .numerics = true});
    REQUIRE(made.ok());
    runtime = std::move(*made);
    auto zero = zero12(*runtime, model, options);
    REQUIRE(zero.ok());
    engine = std::move(*zero);
    REQUIRE(engine->initialise(value_of).ok());
  }
  // Elements that a forward pass sees otherwise than `expected` says.
  int different(const std::function<float(ParameterId, Numel)>& expected) {
    int count = 0;
    REQUIRE(engine->begin_forward().ok());
    for (std::size_t k = 0; k < 3; ++k) {
      const ParameterId id{static_cast<std::int32_t>(k)};
      const auto look = [&, id](const BodyContext& context) {
        const auto n = model.parameter(id).numel().value;
        for (std::int64_t i = 0; i < n; ++i) {
          const float rounded = from_bfloat16(to_bfloat16(expected(id, Numel{i})));
          const float seen =
              load_number(context.read(0), DType::bfloat16, static_cast<std::size_t>(i));
          count += seen == rounded ? 0 : 1;
        }
      };
      REQUIRE(engine->compute({.module = model.forward[k], .body = look}).ok());
    }
    REQUIRE(engine->begin_backward().ok());
    REQUIRE(engine->end_backward().ok());
    return count;
  }
};

TEST_CASE("forward sees what was set, on every rank, frozen or not", "[zero12]") {
  const auto ranks = GENERATE(1, 2, 5);
  const auto bucket = GENERATE(Numel{8}, Numel{1000});
  Numeric run(ranks, {.allgather_bucket = bucket, .param_dtype = DType::bfloat16});
  CHECK(run.different(value_of) == 0);
}

TEST_CASE("forward sees what was committed to summoned parameters", "[zero12]") {
  const bool rank0_only = GENERATE(false, true);
  Numeric run(3, {.param_dtype = DType::bfloat16});
  auto full = summon_full_params(*run.engine, {.rank0_only = rank0_only});
  REQUIRE(full.ok());
  for (std::int32_t k = 0; k < 3; ++k) {
    REQUIRE((*full)
                ->modify(ParameterId{k},
                         [](Rank, std::span<float> values) {
                           for (float& v : values) v += 100;
                         })
                .ok());
  }
  REQUIRE((*full)->commit().ok());
  REQUIRE((*full)->close().ok());
  // The frozen one was rounded before.
  const auto expected = [](ParameterId id, Numel i) {
    const float before = value_of(id, i);
    return (id.value == 0 ? from_bfloat16(to_bfloat16(before)) : before) + 100;
  };
  CHECK(run.different(expected) == 0);
  REQUIRE(run.runtime->finish().ok());
}

}  // namespace
}  // namespace tessera
