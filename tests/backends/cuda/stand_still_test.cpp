// SPDX-License-Identifier: Apache-2.0
// Calls of CUDA that wait until the device has nothing to do: with a dead peer they would never
// come back, so the backend waits before them, where it looks at the deadline.
#include "tests/backends/cuda/peer_scene.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using test::StandIn;

using test::many;
using test::PeerScene;

using Then = std::function<Status(PeerScene&)>;

void check_dead_peer(const Then& then, bool loads_lazily = false) {
  const std::uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.ranks = 2, .seed = seed, .deaf = true, .loads_lazily = loads_lazily});
  test::check_peer_died(test::run_dead_peer(world, then));
  INFO((world.reports().empty() ? std::string() : world.reports().front()));
  CHECK(world.reports().empty());
}

void check_living_peer(const Then& then) {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  const test::TemporaryFolder folder;
  StandIn world({.ranks = 2, .seed = seed});
  const auto statuses = test::run_on(world, [&](ProcessRuntime& host, Rank) -> Status {
    PeerScene scene(host, folder.path());
    TESSERA_TRY(scene.setup());
    TESSERA_TRY(scene.all_reduce());
    TESSERA_TRY(then(scene));
    return host.finish();
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
}

void check(const Then& then) {
  check_dead_peer(then);
  check_living_peer(then);
}

Status allocate(PeerScene& scene, Memory memory) { return scene.allocate(memory, many).status(); }

Status write_many(PeerScene& scene) {
  return scene.work([](const BodyContext& c) {
    const std::vector<float> ones(static_cast<std::size_t>(many.value), 1);
    c.kernels().write(ones, {c.write(0), DType::float32});
  });
}

TEST_CASE("pinned memory behind a dead peer ends at the deadline", "[cuda]") {
  SECTION("of numbers that are sent") { check(write_many); }
  SECTION("of numbers that a body on the host looks at") {
    check([](PeerScene& scene) {
      return scene.work([](const BodyContext& c) { c.write_as<float>(0)[0] = 1; }, true);
    });
  }
  SECTION("of buffers") {
    check([](PeerScene& scene) { return allocate(scene, Memory::pinned_host); });
  }
  SECTION("of files") {
    check([](PeerScene& scene) { return allocate(scene, Memory::nvme); });
  }
}

TEST_CASE("device memory that grows behind a dead peer ends at the deadline", "[cuda]") {
  check([](PeerScene& scene) { return allocate(scene, Memory::device); });
}

TEST_CASE("a kernel's first launch behind a dead peer ends at the deadline", "[cuda]") {
  check_dead_peer(
      [](PeerScene& scene) {
        return scene.work([](const BodyContext& c) {
          c.kernels().divide({c.write(0), DType::float32}, 2);
        });
      },
      /*loads_lazily=*/true);
}

TEST_CASE("a kernel that loads late, in work that has run before, ends at the deadline", "[cuda]") {
  const std::uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.ranks = 2, .seed = seed, .deaf = true, .loads_lazily = true});
  const auto body = [](bool later) {
    return [later](const BodyContext& c) {
      const Elements numbers{c.write(0), DType::float32};
      if (later) return c.kernels().scale(numbers, numbers, 2);
      c.kernels().divide(numbers, 2);
    };
  };
  const auto statuses = test::run_on(world,
                                     [&](ProcessRuntime& host, Rank rank) -> Status {
                                       PeerScene scene(host, "");
                                       TESSERA_TRY(scene.setup());
                                       TESSERA_TRY(scene.take_numbers());
                                       TESSERA_TRY(scene.work(body(false)));
                                       if (rank == 1) return Status(Code::cancelled, "died");
                                       TESSERA_TRY(scene.all_reduce());
                                       TESSERA_TRY(scene.work(body(true)));
                                       return host.finish();
                                     },
                                     {.deadline = 3'000'000'000});
  test::check_peer_died(statuses);
  INFO((world.reports().empty() ? std::string() : world.reports().front()));
  CHECK(world.reports().empty());
}

TEST_CASE("letters of a usual size take no memory behind the first operation", "[cuda]") {
  StandIn world({.ranks = 2, .seed = 1});
  int before = 0;
  const auto statuses = test::run_on(world, [&](ProcessRuntime& host, Rank rank) -> Status {
    PeerScene scene(host, "");
    TESSERA_TRY(scene.setup());
    TESSERA_TRY(scene.all_reduce());
    if (rank == 0) before = world.uses(test::Call::host_alloc, 0);
    for (int k = 0; k < 20; ++k) {
      TESSERA_TRY(scene.work([](const BodyContext& c) {
        const std::vector<float> tokens(1'000, 1);
        c.kernels().write(tokens, {c.write(0).first(4'000), DType::float32});
      }));
    }
    return host.finish();
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
  CHECK(before > 0);
  CHECK(world.uses(test::Call::host_alloc, 0) == before);
}

}  // namespace
}  // namespace tessera
