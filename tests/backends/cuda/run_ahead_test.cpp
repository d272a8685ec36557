// SPDX-License-Identifier: Apache-2.0
// A host that is much faster than its device: streams never become full, so it can always look at
// files, deadlines and other ranks.
#include <thread>

#include "tests/backends/cuda/file_scene.h"

namespace tessera {
namespace {

using test::Call;
using test::DriveHabits;
using test::FileScene;
using test::StandIn;

TEST_CASE("thousands of launches behind a file that is slow to come do not hang", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.seed = seed});
  DriveHabits habits{.looks = 2'000};
  const auto outcome =
      test::run_scene(world, habits, [&](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write().status());
        TESSERA_TRY(scene.read().status());
        TESSERA_TRY(scene.wait_for_files());
        for (int k = 0; k < 3'000; ++k) TESSERA_TRY(scene.twice().status());
        return host.finish();
      });
  test::require_clean({outcome.statuses, outcome.reports, outcome.leaks});
  CHECK(habits.moved == 2);
}

TEST_CASE("launches behind a drive that hangs end at the deadline, by the copy's name", "[cuda]") {
  StandIn world({.seed = 1});
  DriveHabits habits{.stands = true};
  const auto outcome =
      test::run_scene(world, habits, [&](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write().status());
        TESSERA_TRY(scene.wait_for_files());
        for (int k = 0; k < 3'000; ++k) TESSERA_TRY(scene.twice().status());
        return host.finish();
      });
  INFO(outcome.statuses[0].message());
  CHECK(outcome.statuses[0].code() == Code::timed_out);
  CHECK(outcome.statuses[0].message().starts_with("rank 0 waited 3.0 s for the copy of unit here"));
  CHECK(outcome.reports.empty());
}

// One collective and what follows it, on the same stream.
Status collective_and_launches(Runtime& runtime, int launches) {
  TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
  TESSERA_ASSIGN(const StreamId stream, runtime.create_stream("s", StreamRole::compute));
  TESSERA_ASSIGN(const CommunicatorId everybody, runtime.create_communicator(all, "all"));
  TESSERA_ASSIGN(
      const BufferId buffer,
      runtime.allocate(
          {.bytes = Bytes{8}, .stream = stream, .where = runtime.world(), .name = "numbers"}));
  const View view = View::whole(buffer, DType::float32, Numel{2});
  const auto submit = [&](decltype(Op::what) what) {
    return runtime
        .submit({.stream = stream,
                 .where = runtime.world(),
                 .cause = {.unit = "here"},
                 .what = std::move(what)})
        .status();
  };
  TESSERA_TRY(submit(Compute{.writes = {view}, .zeroed = {0}}));
  TESSERA_TRY(submit(AllReduce{everybody, view, view}));
  for (int k = 0; k < launches; ++k) TESSERA_TRY(submit(Compute{.writes = {view}, .zeroed = {0}}));
  return {};
}

TEST_CASE("launches behind a collective whose peer died end at the deadline, by its name",
          "[cuda]") {
  const std::uint64_t seed = GENERATE(1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.ranks = 2, .seed = seed, .deaf = true});
  const auto statuses =
      test::run_on(world,
                   [](ProcessRuntime& host, Rank rank) -> Status {
                     if (rank == 1) {
                       Runtime& runtime = host;
                       TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
                       TESSERA_TRY(runtime.create_stream("s", StreamRole::compute).status());
                       TESSERA_TRY(runtime.create_communicator(all, "all").status());
                       return Status(Code::cancelled, "died");
                     }
                     TESSERA_TRY(collective_and_launches(host, 3'000));
                     return host.finish();
                   },
                   {.deadline = 3'000'000'000});
  test::check_peer_died(statuses);
  CHECK(world.reports().empty());
}

TEST_CASE("how far the host runs ahead follows from what it submits, never from time", "[cuda]") {
  const auto marks = [](std::uint64_t seed, Time look) {
    StandIn world({.ranks = 2, .seed = seed, .look = look});
    const auto statuses = test::run_on(world, [](ProcessRuntime& host, Rank) -> Status {
      TESSERA_TRY(collective_and_launches(host, 1'000));
      return host.finish();
    });
    test::require_clean({statuses, world.reports(), world.leaks()});
    return world.marks(0);
  };
  const int once = marks(0, 1'000);
  CHECK(once >= 1'000 * 4 / RunAhead::window);
  for (const std::uint64_t seed : {1, 2, 3}) CHECK(marks(seed, 50'000) == once);
}

TEST_CASE("a caller may go on in another thread, on the same device", "[cuda]") {
  StandIn world({.ranks = 2, .seed = 4});
  const auto statuses = test::run_on(world, [](ProcessRuntime& host, Rank rank) -> Status {
    Status outcome;
    const auto work = [&] {
      outcome = collective_and_launches(host, 10);
      if (outcome.ok()) outcome = host.finish();
    };
    if (rank == 0) {
      work();
    } else {
      std::thread(work).join();
    }
    return outcome;
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
}

}  // namespace
}  // namespace tessera
