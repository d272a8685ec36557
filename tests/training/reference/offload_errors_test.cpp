// SPDX-License-Identifier: Apache-2.0
// A drive that fails under a training run: the run ends in one sentence, and every parameter is
// what it was before the step or what it is after it.
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>

#include "tessera/real_model.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/sim/test_costs.h"
#include "tests/swap/faulty_io.h"
#include "tests/swap/scratch_folder.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using Values = std::map<std::string, std::vector<float>>;

struct Run {
  test::ScratchFolder folder;
  test::Fault fault;
  test::TestCosts costs;
  Model model = test::mlp_chain();
  std::unique_ptr<sim::LockstepRuntime> runtime;
  std::unique_ptr<Zero3> engine;
  TrainingOptions training;

  Run(Offload::Device param, Offload::Device optimizer) {
    auto made = sim::LockstepRuntime::create(
        {.world_size = 2, .cost = &costs, .numerics = true, .swap_io = [this] {
           return std::make_unique<test::FaultyIo>(fault);
         }});
    REQUIRE(made.ok());
    runtime = std::move(*made);
    Zero3Options o;
    o.offload_param = {.device = param, .nvme_path = folder.path()};
    o.offload_optimizer = {.device = optimizer, .nvme_path = folder.path(), .buffer_count = 12};
    o.aio.smallest = Bytes{0};
    o.persistence_threshold = Numel{0};
    o.sub_group_size = Numel{20};
    auto zero = zero3(*runtime, model, o);
    INFO(zero.status().message());
    REQUIRE(zero.ok());
    engine = std::move(*zero);
    auto real = RealModel::create(model, {.world_size = 2});
    REQUIRE(real.ok());
    REQUIRE(engine->initialise(real->initial_values()).ok());
    training.body = real->bodies();
  }
  Status step() { return run_training_step(*engine, model, training); }
  Values values() {
    Values all;
    for (std::size_t p = 0; p < model.parameters.size(); ++p) {
      std::vector<float>& own = all[model.parameters[p].name];
      const Status status =
          engine->inspect_shards(ParameterId{static_cast<std::int32_t>(p)},
                                 [&](Rank, Numel, std::span<const float> shard) {
                                   own.insert(own.end(), shard.begin(), shard.end());
                                 });
      INFO(status.message());
      REQUIRE(status.ok());
    }
    return all;
  }
};

void check_before_or_after(Run& run, const Values& before, const Values& after) {
  for (const auto& [name, now] : run.values()) {
    INFO(name);
    CHECK((now == before.at(name) || now == after.at(name)));
  }
}

constexpr auto nvme = Offload::Device::nvme;
constexpr auto none = Offload::Device::none;

// Values before and after the second step, without faults.
std::pair<Values, Values> expected(Offload::Device param, Offload::Device optimizer) {
  Run run(param, optimizer);
  REQUIRE(run.step().ok());
  Values before = run.values();
  REQUIRE(run.step().ok());
  return {std::move(before), run.values()};
}

TEST_CASE("a failed write and a full disk end a step in a named error with parameters intact",
          "[numerics][offload]") {
  const auto [param, optimizer] =
      GENERATE(std::pair{nvme, none}, std::pair{none, nvme}, std::pair{nvme, nvme});
  const int error = GENERATE(EIO, ENOSPC);
  const int at = GENERATE(1, 2, 5, 8);  // which write it is
  const auto [before, after] = expected(param, optimizer);
  Run run(param, optimizer);
  REQUIRE(run.step().ok());
  REQUIRE(run.values() == before);
  int writes = 0;
  run.fault.after = [&writes, at, error](const BlockRequest& r, std::int64_t result) {
    return r.writes && ++writes == at ? -error : result;
  };
  const Status status = run.step();
  REQUIRE_FALSE(status.ok());
  INFO(status.message());
  CHECK(status.code() == Code::io_error);
  CHECK(status.message().find("writing") != std::string::npos);
  CHECK(status.message().find("rank ") != std::string::npos);
  CHECK(status.message().find(error == EIO ? "Input/output error" : "no space left") !=
        std::string::npos);
  run.fault = {};
  check_before_or_after(run, before, after);
  CHECK(run.step().message().starts_with("training ended with: "));
}

TEST_CASE("a short read ends a pass in a named error with parameters intact",
          "[numerics][offload]") {
  const auto [before, after] = expected(nvme, nvme);
  Run run(nvme, nvme);
  REQUIRE(run.step().ok());
  run.fault.after = [](const BlockRequest& r, std::int64_t result) {
    return r.writes ? result : std::int64_t{0};
  };
  const Status status = run.step();
  CHECK(status.code() == Code::io_error);
  INFO(status.message());
  CHECK(status.message().find("reading") != std::string::npos);
  CHECK(status.message().find("it ended after 0 of") != std::string::npos);
  run.fault = {};
  check_before_or_after(run, before, before);
}

}  // namespace
}  // namespace tessera
