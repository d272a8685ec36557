// SPDX-License-Identifier: Apache-2.0
// What computations repeat is launched as graphs: the same numbers, and bodies that do not run.
#include "engine/backends/cuda/graphs.h"

#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

using test::Call;
using test::StandIn;

// One stream of a fake GPU, and numbers that computations double.
class Scene {
 public:
  explicit Scene(Runtime& runtime) : runtime_(runtime) {}

  Status setup() {
    TESSERA_ASSIGN(stream_, runtime_.create_stream("compute", StreamRole::compute));
    return {};
  }
  Result<View> numbers() {
    TESSERA_ASSIGN(
        const BufferId id,
        runtime_.allocate(
            {.bytes = Bytes{16}, .stream = stream_, .where = runtime_.world(), .name = "numbers"}));
    const View all = View::whole(id, DType::float32, Numel{4});
    Compute ones{.writes = {all}};
    ones.body = [](const BodyContext& c) {
      c.kernels().write(std::vector<float>(4, 1), {c.write(0), DType::float32});
    };
    TESSERA_TRY(submit(std::move(ones)));
    return all;
  }
  /// Work that doubles; counts when its body runs.
  Compute twice(const View& all) {
    Compute work{.writes = {all}};
    work.body = [this](const BodyContext& c) {
      ++bodies;
      c.kernels().divide({c.write(0), DType::float32}, 0.5F);
    };
    work.repeated = {owner_, 1};
    return work;
  }
  Status submit(Compute work) {
    return runtime_
        .submit({.stream = stream_,
                 .where = runtime_.world(),
                 .cause = {.unit = "here"},
                 .what = std::move(work)})
        .status();
  }
  Result<float> first(const View& all) {
    View one = all;
    one.numel = Numel{1};
    TESSERA_ASSIGN(const auto read, runtime_.read(one));
    return read[0];
  }

  int bodies = 0;

 private:
  Runtime& runtime_;
  StreamId stream_;
  std::shared_ptr<int> owner_ = std::make_shared<int>(0);
};

std::vector<Status> run(StandIn& world,
                        const std::function<Status(Scene&, ProcessRuntime&)>& program,
                        bool graphs = true) {
  return test::run_on(world,
                      [&](ProcessRuntime& host, Rank) -> Status {
                        Scene scene(host);
                        TESSERA_TRY(scene.setup());
                        return program(scene, host);
                      },
                      {.graphs = graphs});
}

TEST_CASE("what repeats runs once, is recorded once and then launched", "[cuda][graphs]") {
  const bool graphs = GENERATE(false, true);
  const std::uint64_t seed = GENERATE(0, 1, 2);
  StandIn world({.seed = seed});
  const auto statuses = run(
      world,
      [&](Scene& scene, ProcessRuntime& host) -> Status {
        TESSERA_ASSIGN(const View all, scene.numbers());
        for (int k = 0; k < 10; ++k) TESSERA_TRY(scene.submit(scene.twice(all)));
        CHECK(scene.bodies == (graphs ? 2 : 10));
        CHECK(world.uses(Call::graph_launch, 0) == (graphs ? 9 : 0));
        TESSERA_ASSIGN(const float first, scene.first(all));
        CHECK(first == 1024);
        CHECK(host.graphs().launched == (graphs ? 9 : 0));
        CHECK(host.graphs().all() == (graphs ? 11 : 0));
        return host.finish();
      },
      graphs);
  test::require_clean({statuses, world.reports(), world.leaks()});
}

TEST_CASE("whatever differs from what was recorded runs its body", "[cuda][graphs]") {
  StandIn world({.seed = 1});
  const auto statuses = run(world, [&](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_ASSIGN(const View all, scene.numbers());
    TESSERA_ASSIGN(const View other, scene.numbers());
    const auto runs = [&](const Compute& work) -> Result<bool> {
      const int before = scene.bodies;
      TESSERA_TRY(scene.submit(work));
      return scene.bodies > before;
    };
    const Compute work = scene.twice(all);
    for (const bool expected : {true, true, false}) {
      TESSERA_ASSIGN(const bool ran, runs(work));
      CHECK(ran == expected);
    }
    Compute moved = scene.twice(other);
    Compute shorter = work;
    shorter.writes[0].numel = Numel{3};
    Compute named = work;
    named.repeated.part = 2;
    Compute owned = work;
    owned.repeated.of = std::make_shared<int>(0);
    Compute zeroed = work;
    zeroed.zeroed = {0};
    Compute fresh = work;
    fresh.repeated = {};
    for (const Compute& changed : {moved, shorter, named, owned, fresh, zeroed}) {
      TESSERA_ASSIGN(const bool ran, runs(changed));
      CHECK(ran);
    }
    TESSERA_ASSIGN(const bool again, runs(work));
    CHECK_FALSE(again);
    const GraphCounts counts = host.graphs();
    CHECK(counts.launched == 3);
    CHECK(counts.first == 3);       // work, named, owned
    CHECK(counts.moved == 3);       // moved, shorter, zeroed
    CHECK(counts.unrepeated == 3);  // what made the numbers, twice, and fresh
    TESSERA_ASSIGN(const float first, scene.first(all));
    CHECK(first == 0);  // it was zeroed
    TESSERA_ASSIGN(const float second, scene.first(other));
    CHECK(second == 2);
    return host.finish();
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
}

TEST_CASE("a body that talks with the host cannot be recorded, and is told so", "[cuda][graphs]") {
  const int how = GENERATE(0, 1, 2);
  StandIn world({.seed = 1});
  const auto statuses = run(world, [&](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_ASSIGN(const View all, scene.numbers());
    Compute work = scene.twice(all);
    work.body = [how](const BodyContext& c) {
      const Elements numbers{c.write(0), DType::float32};
      std::vector<float> here(4);
      if (how == 0) c.kernels().write(here, numbers);
      if (how == 1) c.kernels().read(numbers, here);
      if (how == 2) c.kernels().receive(numbers.bytes, [](std::span<const std::byte>) {});
    };
    TESSERA_TRY(scene.submit(work));
    TESSERA_TRY(scene.submit(work));
    return host.finish();
  });
  CHECK(statuses[0].message() ==
        "a computation that says it repeats (Compute::repeated) exchanges numbers with the host: "
        "its graph would be launched without them");
  CHECK(world.reports().empty());
  CHECK(world.leaks().empty());
}

TEST_CASE("a run without end keeps few graphs", "[cuda][graphs]") {
  StandIn world({.seed = 0});
  const auto statuses = world.run([&](std::unique_ptr<CudaPeers>) -> Status {
    const CudaModule module = StandIn::module();
    CudaStream stream = nullptr;
    module.cuda.stream_create(&stream, 0);
    {
      Graphs graphs(module.cuda);
      const auto owner = std::make_shared<int>(0);
      const auto launched = [&] { return world.uses(Call::graph_launch, 0); };
      const auto use = [&](std::uintptr_t key) {
        return graphs.run({key, 1}, owner, stream, [] { return Status(); });
      };
      for (std::uintptr_t key = 0; key < 9'000; ++key) {
        TESSERA_TRY(use(key));
        TESSERA_TRY(use(key));
        TESSERA_TRY(use(1'000'000));  // is never forgotten
      }
      CHECK(world.uses(Call::graph_exec_destroy, 0) >= 4'000);
      const int before = launched();
      TESSERA_TRY(use(1'000'000));
      TESSERA_TRY(use(8'999));
      CHECK(launched() == before + 2);
      TESSERA_TRY(use(0));  // as if it were new
      CHECK(launched() == before + 2);
      CHECK(owner.use_count() < 5'000);
    }
    module.cuda.stream_destroy(stream);
    return {};
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
}

}  // namespace
}  // namespace tessera
