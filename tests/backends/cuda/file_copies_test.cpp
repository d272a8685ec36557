// SPDX-License-Identifier: Apache-2.0
// Copies between host memory and files: the device waits for the drive, the host does not.
#include "tests/backends/cuda/file_scene.h"

namespace tessera {
namespace {

using test::Call;
using test::DriveHabits;
using test::StandIn;
using Scene = test::FileScene;
using Ended = test::FileSceneEnd;
using test::run_scene;

TEST_CASE("computations go on while a drive stands still", "[cuda][offload]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.seed = seed});
  DriveHabits habits{.stands = true};
  const Ended ended = run_scene(world, habits, [&](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.read().status());
    EventId last;
    for (int k = 0; k < 20; ++k) {
      TESSERA_ASSIGN(last, scene.twice());
    }
    TESSERA_TRY(host.wait(last));  // the device has computed
    TESSERA_TRY(scene.bring_back());
    TESSERA_TRY(scene.release_file());
    CHECK(habits.moved == 0);
    habits.stands = false;
    TESSERA_ASSIGN(const float first, scene.first());
    CHECK(first == 1);
    CHECK(habits.moved == 2);
    return host.finish();
  });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
}

TEST_CASE("submitting a copy to a file asks no event whether it is over", "[cuda][offload]") {
  StandIn world({.seed = 1});
  DriveHabits habits{.looks = 1'000};
  const Ended ended = run_scene(world, habits, [&](Scene& scene, ProcessRuntime& host) -> Status {
    const int before = world.uses(Call::event_query, 0);
    for (int k = 0; k < 10; ++k) {
      TESSERA_TRY(scene.write().status());
      TESSERA_TRY(scene.twice().status());
    }
    // Each submission looks at most once at the copy that is next; waiting would look on and on.
    CHECK(world.uses(Call::event_query, 0) - before <= 20);
    CHECK(habits.moved == 0);
    habits.looks = 1;
    return host.finish();
  });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
}

TEST_CASE("a drive that fails ends the run with its sentence, and streams go on", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2);
  StandIn world({.seed = seed});
  DriveHabits habits{.error = EIO};
  const Ended ended = run_scene(world, habits, [](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.read().status());
    return host.finish();
  });
  CHECK(ended.statuses[0].code() == Code::io_error);
  CHECK(ended.statuses[0].message().find("rank 0: writing numbers (4000 bytes, the block at "
                                         "offset 0) failed: Input/output error") !=
        std::string::npos);
  CHECK(ended.reports.empty());
  CHECK(ended.leaks.empty());
}

TEST_CASE("a drive that hangs ends the run at the deadline, by the copy's name", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2);
  StandIn world({.seed = seed});
  DriveHabits habits{.stands = true};
  const Ended ended = run_scene(world, habits, [](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    return host.finish();
  });
  CHECK(ended.statuses[0].code() == Code::timed_out);
  INFO(ended.statuses[0].message());
  CHECK(ended.statuses[0].message().starts_with("rank 0 waited 3.0 s for the copy of unit here"));
  CHECK(ended.reports.empty());
  CHECK(habits.moved == 0);          // nobody waited for it any longer
  CHECK_FALSE(ended.leaks.empty());  // it may still write there
}

TEST_CASE("a drive that is slow and moves is waited for as long as it takes", "[cuda]") {
  StandIn world({.seed = 2});
  DriveHabits habits{.looks = 1'000};
  const Ended ended = run_scene(world, habits, [](Scene& scene, ProcessRuntime& host) -> Status {
    for (int k = 0; k < 8; ++k) TESSERA_TRY(scene.write().status());
    return host.finish();
  });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
}

TEST_CASE("a kernel's first launch waits for a device that waits for a drive, and goes on",
          "[cuda]") {
  const std::uint64_t seed = GENERATE(1, 2, 3);
  StandIn world({.seed = seed, .loads_lazily = true});
  DriveHabits habits{.looks = 3};
  const Ended ended = run_scene(world, habits, [](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.read().status());
    TESSERA_TRY(scene.wait_for_files());
    TESSERA_TRY(scene.twice().status());
    TESSERA_TRY(scene.bring_back());
    TESSERA_ASSIGN(const float first, scene.first());
    CHECK(first == 1);
    TESSERA_TRY(scene.release_file());
    return host.finish();
  });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
}

TEST_CASE("a launch that waits for a drive that hangs ends with the drive's sentence", "[cuda]") {
  StandIn world({.seed = 1, .loads_lazily = true});
  DriveHabits habits{.stands = true};
  const Ended ended = run_scene(world, habits, [](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.wait_for_files());
    TESSERA_TRY(scene.twice().status());
    return host.finish();
  });
  INFO(ended.statuses[0].message());
  CHECK(ended.statuses[0].code() == Code::timed_out);
  CHECK(ended.statuses[0].message().find("s for a drive that moved no block of its files") !=
        std::string::npos);
  CHECK(ended.reports.empty());
}

TEST_CASE("a stream that does not wait for the drive reads what was not there yet", "[cuda]") {
  StandIn world(
      {.seed = 3, .fault = {{.call = Call::stream_wait_value, .use = 2, .dropped = true}}});
  DriveHabits habits{.looks = 5};
  float first = 0;
  const Ended ended = run_scene(world, habits, [&](Scene& scene, ProcessRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.read().status());
    TESSERA_TRY(scene.bring_back());
    TESSERA_ASSIGN(first, scene.first());
    return host.finish();
  });
  CHECK(first != 1);
}

}  // namespace
}  // namespace tessera
