// SPDX-License-Identifier: Apache-2.0
// Copies between host memory and files: the device waits for the drive, the host does not.
#include "tests/cuda/cuda_ranks.h"
#include "tests/cuda/slow_drive.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using test::Call;
using test::DriveHabits;
using test::StandIn;

constexpr Numel numbers{1000};
constexpr Bytes bytes{4000};

// Numbers on the device, in host memory and in a file, and two streams.
class Scene {
 public:
  explicit Scene(Runtime& runtime) : runtime_(runtime) {}

  Status setup(const std::string& folder) {
    TESSERA_ASSIGN(compute_, runtime_.create_stream("compute", StreamRole::compute));
    TESSERA_ASSIGN(files_, runtime_.create_stream("files", StreamRole::communication));
    TESSERA_ASSIGN(device_, allocate(Memory::device, ""));
    TESSERA_ASSIGN(host_, allocate(Memory::pinned_host, ""));
    TESSERA_ASSIGN(again_, allocate(Memory::pinned_host, ""));
    TESSERA_ASSIGN(file_, allocate(Memory::nvme, folder));
    TESSERA_TRY(fill_with_ones());
    TESSERA_TRY(copy(compute_, device_, host_, CopyRoute::to_host).status());
    return submit(files_, Wait{compute_}).status();
  }
  Result<EventId> write() { return copy(files_, host_, file_, CopyRoute::to_nvme); }
  Result<EventId> read() { return copy(files_, file_, again_, CopyRoute::from_nvme); }
  Result<EventId> twice() {
    Compute work{.writes = {device_}};
    work.body = [](const BodyContext& c) {
      c.kernels().divide({c.write(0), DType::float32}, 0.5F);
    };
    return submit(compute_, std::move(work));
  }
  // What was read, onto the device.
  Status bring_back() {
    TESSERA_TRY(submit(compute_, Wait{files_}).status());
    return copy(compute_, again_, device_, CopyRoute::to_device).status();
  }
  Status release_file() {
    TESSERA_ASSIGN(const EventId last, submit(files_, Wait{}));
    return runtime_.release(file_.buffer, last, runtime_.world());
  }
  Result<float> first() {
    View one = device_;
    one.numel = Numel{1};
    TESSERA_ASSIGN(const auto read, runtime_.read(one));
    return read[0];
  }

 private:
  Result<View> allocate(Memory memory, const std::string& folder) {
    TESSERA_ASSIGN(const BufferId id, runtime_.allocate({.bytes = bytes,
                                                         .memory = memory,
                                                         .stream = compute_,
                                                         .where = runtime_.world(),
                                                         .name = "numbers",
                                                         .directory = folder}));
    return View::whole(id, DType::float32, numbers);
  }
  Result<EventId> submit(StreamId stream, decltype(Op::what) what) {
    return runtime_.submit({.stream = stream,
                            .where = runtime_.world(),
                            .cause = {.unit = "here"},
                            .what = std::move(what)});
  }
  Result<EventId> copy(StreamId stream, const View& from, const View& to, CopyRoute route) {
    return submit(stream, Copy{.pieces = {{.from = from, .to = to}}, .route = route});
  }
  Status fill_with_ones() {
    Compute work{.writes = {device_}};
    work.body = [](const BodyContext& c) {
      const std::vector<float> ones(static_cast<std::size_t>(numbers.value), 1);
      c.kernels().write(ones, {c.write(0), DType::float32});
    };
    return submit(compute_, std::move(work)).status();
  }

  Runtime& runtime_;
  StreamId compute_, files_;
  View device_, host_, again_, file_;
};

struct Ended {
  std::vector<Status> statuses;
  std::vector<std::string> reports;
  std::string leaks;
};

Ended run(StandIn& world, DriveHabits& habits,
          const std::function<Status(Scene&, HostRuntime&)>& program) {
  const test::TemporaryFolder folder;
  Ended ended;
  ended.statuses = test::run_on(
      world,
      [&](HostRuntime& host, Rank) -> Status {
        Scene scene(host.seam());
        TESSERA_TRY(scene.setup(folder.path()));
        return program(scene, host);
      },
      {.deadline = 3'000'000'000, .pinned_memory = Bytes{1 << 20}, .swap_io = [&habits] {
         return std::make_unique<test::SlowDrive>(habits);
       }});
  ended.reports = world.reports();
  ended.leaks = world.leaks();
  return ended;
}

TEST_CASE("computations go on while a drive stands still", "[cuda][offload]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3);
  INFO("seed " << seed);
  StandIn world({.seed = seed});
  DriveHabits habits{.stands = true};
  const Ended ended = run(world, habits, [&](Scene& scene, HostRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    TESSERA_TRY(scene.read().status());
    EventId last;
    for (int k = 0; k < 20; ++k) {
      TESSERA_ASSIGN(last, scene.twice());
    }
    TESSERA_TRY(host.seam().wait(last));  // the device has computed
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
  const Ended ended = run(world, habits, [&](Scene& scene, HostRuntime& host) -> Status {
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
  const Ended ended = run(world, habits, [](Scene& scene, HostRuntime& host) -> Status {
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
  const Ended ended = run(world, habits, [](Scene& scene, HostRuntime& host) -> Status {
    TESSERA_TRY(scene.write().status());
    return host.finish();
  });
  CHECK(ended.statuses[0].code() == Code::timed_out);
  INFO(ended.statuses[0].message());
  CHECK(ended.statuses[0].message().starts_with("rank 0 waited 3.0 s for the copy of unit here"));
  CHECK(ended.reports.empty());
  CHECK(ended.leaks.empty());
}

TEST_CASE("a drive that is slow and moves is waited for as long as it takes", "[cuda]") {
  StandIn world({.seed = 2});
  DriveHabits habits{.looks = 1'000};
  const Ended ended = run(world, habits, [](Scene& scene, HostRuntime& host) -> Status {
    for (int k = 0; k < 8; ++k) TESSERA_TRY(scene.write().status());
    return host.finish();
  });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
}

TEST_CASE("a stream that does not wait for the drive reads what was not there yet", "[cuda]") {
  StandIn world(
      {.seed = 3, .fault = {{.call = Call::stream_wait_value, .use = 2, .dropped = true}}});
  DriveHabits habits{.looks = 5};
  float first = 0;
  const Ended ended = run(world, habits, [&](Scene& scene, HostRuntime& host) -> Status {
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
