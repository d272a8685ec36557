// SPDX-License-Identifier: Apache-2.0
// Whichever allocation fails, a summon leaves nothing behind and the shards as they are.
#include <catch2/catch.hpp>

#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/sim/test_costs.h"
#include "tests/summon/scenes.h"

namespace tessera {
namespace {

using test::require_ok;

// Forwards everything; the allocation number `fails_at` from now finds no memory. Counts what
// lives.
class SmallRuntime final : public Runtime {
 public:
  explicit SmallRuntime(Runtime& inner) : inner_(inner) {}
  int fails_at = -1;
  int live = 0;  // buffers times ranks

  const RankSet& world() const override { return inner_.world(); }
  const RankSet& local_ranks() const override { return inner_.local_ranks(); }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) override {
    return inner_.create_stream(name, role);
  }
  Result<CommunicatorId> create_communicator(const RankGroups& groups,
                                             std::string_view name) override {
    return inner_.create_communicator(groups, name);
  }
  Result<BufferId> allocate(const Allocation& request) override {
    if (fails_at >= 0 && fails_at-- == 0) {
      return Status(Code::out_of_memory, "no room for " + std::string(request.name));
    }
    live += request.where.count();
    return inner_.allocate(request);
  }
  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    live -= where.count();
    return inner_.release(buffer, after, where);
  }
  Result<EventId> submit(const Op& op) override { return inner_.submit(op); }
  Status wait(EventId event) override { return inner_.wait(event); }
  Result<PerRank<float>> read(const View& scalar) override { return inner_.read(scalar); }
  PerRank<Time> now() const override { return inner_.now(); }

 private:
  Runtime& inner_;
};

// Summons with gradients, doubles everything and commits. False: it ran out of memory.
bool doubles(Engine& engine, SmallRuntime& runtime, const SummonOptions& options, int fails_at) {
  runtime.fails_at = fails_at;
  auto full = summon_full_params(engine, options);
  if (full.ok()) {
    for (const ParameterId id : (*full)->parameters()) {
      require_ok((*full)->modify(id, [](Rank, std::span<float> values) {
        for (float& value : values) value *= 2;
      }));
    }
    const Status committed = (*full)->commit();
    runtime.fails_at = -1;
    require_ok((*full)->close());
    if (committed.ok()) return true;
    CHECK(committed.code() == Code::out_of_memory);
    return false;
  }
  runtime.fails_at = -1;
  INFO(full.status().message());
  CHECK(full.status().code() == Code::out_of_memory);
  return false;
}

TEST_CASE("no failing allocation leaves anything behind", "[summon][memory]") {
  const auto schemes = test::summon_schemes();
  const std::size_t place = GENERATE(range(std::size_t{0}, std::size_t{16}));
  INFO(schemes[place].name);
  const Model model = test::g3();
  const test::TestCosts costs;
  auto lockstep = sim::LockstepRuntime::create({.world_size = 4, .cost = &costs, .numerics = true});
  require_ok(lockstep.status());
  SmallRuntime runtime(**lockstep);
  auto engine = schemes[place].make(runtime, model, {"L1", "L2", "L3"});
  require_ok(engine.status());
  require_ok((*engine)->initialise([](ParameterId, Numel) { return 1.0F; }));

  const SummonOptions options{
      .rank0_only = GENERATE(false, true), .offload_to_cpu = true, .with_grads = true};
  test::Interrupted interrupted(**engine);
  int failures = 0;
  interrupted.before_step = [&] {
    const int live = runtime.live;
    while (!doubles(**engine, runtime, options, failures)) {
      ++failures;
      CHECK(runtime.live == live);
      // Units are committed whole or not at all: every element was doubled equally often.
      const test::Shards shards(**engine, model);
      for (const auto& piece : shards.pieces) {
        const float first = shards.full(model, piece.parameter).front();
        for (const float value : piece.values) CHECK(value == first);
      }
    }
    CHECK(runtime.live == live);
  };
  require_ok(run_training_step(interrupted, model, {}));
  CHECK(failures >= 4);
  require_ok((*lockstep)->finish());
}

}  // namespace
}  // namespace tessera
