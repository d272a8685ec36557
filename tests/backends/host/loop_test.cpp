// SPDX-License-Identifier: Apache-2.0
// A program's own loop: when its bodies have run, and the mean of what they found.
#include <catch2/catch.hpp>

#include "tessera/real_model.h"
#include "tessera/scheme.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

using test::on_threads;
using test::require_all_ok;

constexpr int steps = 20;

// The bodies that ran in each step, when the loop looked.
struct Seen {
  std::vector<int> bodies;
  std::vector<double> means;
};

Status loop(ProcessRuntime& runtime, const Scheme& scheme, Seen& seen) {
  const Model model = test::g3();
  TESSERA_ASSIGN(const auto engine, make_engine(runtime, model, scheme));
  TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 1.0F; }));
  int ran = 0;
  TrainingOptions training{.batch = 1};
  training.body = [&ran](ModuleId, ModuleWork::Pass,
                         std::int32_t) -> std::function<void(const BodyContext&)> {
    return [&ran](const BodyContext&) { ++ran; };
  };
  for (int step = 0; step < steps; ++step) {
    ran = 0;
    TESSERA_TRY(run_training_step(*engine, model, training));
    if (step % 2 == 0) TESSERA_TRY(runtime.wait());
    TESSERA_ASSIGN(const double mean,
                   runtime.mean([&](Rank rank) { return static_cast<float>(ran * 10 + rank); }));
    seen.bodies.push_back(ran);
    seen.means.push_back(mean);
  }
  return runtime.finish();
}

TEST_CASE("after wait or mean all bodies of a step have run, on every rank", "[loop]") {
  const Scheme scheme =
      GENERATE(values<Scheme>({FullyShardOptions{}, Fsdp1Options{}, ReplicateOptions{},
                               ShardedDataParallelOptions{}, Zero12Options{}, Zero3Options{}}));
  const Rank ranks = GENERATE(1, 3);
  INFO(name_of(scheme));
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  require_all_ok(on_threads(ranks, {}, [&](ProcessRuntime& runtime, Rank rank) {
    return loop(runtime, scheme, seen[static_cast<std::size_t>(rank)]);
  }));
  const int expected = 2 * static_cast<int>(test::g3().forward.size());
  for (const Seen& of_rank : seen) {
    CHECK(of_rank.bodies == std::vector<int>(steps, expected));
    CHECK(of_rank.means == std::vector<double>(steps, expected * 10 + (ranks - 1) / 2.0));
  }
}

TEST_CASE("a mean comes before any engine, and leaves its stream to the first", "[loop]") {
  require_all_ok(on_threads(2, {}, [](ProcessRuntime& runtime, Rank) -> Status {
    TESSERA_TRY(runtime.wait());
    TESSERA_ASSIGN(const double mean, runtime.mean([](Rank rank) { return rank == 0 ? 1.F : 4; }));
    CHECK(mean == 2.5);
    const Model model = test::g3();
    for (int k = 0; k < 50; ++k) {
      TESSERA_ASSIGN(const auto engine, make_engine(runtime, model, FullyShardOptions{}));
      TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 1.0F; }));
      TESSERA_TRY(runtime.wait());
    }
    return runtime.finish();
  }));
}

TEST_CASE("a body that asks for what is not there ends all ranks with one sentence", "[loop]") {
  const auto statuses = on_threads(2, {}, [](ProcessRuntime& runtime, Rank rank) -> Status {
    const Model model = test::g3();
    TESSERA_ASSIGN(const auto engine, make_engine(runtime, model, FullyShardOptions{}));
    TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 1.0F; }));
    TrainingOptions training;
    training.body = [rank](ModuleId, ModuleWork::Pass,
                           std::int32_t) -> std::function<void(const BodyContext&)> {
      if (rank == 0) return {};
      return [](const BodyContext& context) { (void)context.read(7); };
    };
    TESSERA_TRY(run_training_step(*engine, model, training));
    return runtime.finish();
  });
  for (const Status& status : statuses) {
    INFO(status.message());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find("asked for what is not there") != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
