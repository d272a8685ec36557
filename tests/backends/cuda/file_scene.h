// SPDX-License-Identifier: Apache-2.0
// A rank that copies numbers between its device, host memory and a file.
#pragma once

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/cuda/slow_drive.h"
#include "tests/temporary_folder.h"

namespace tessera::test {

// Numbers on the device, in host memory and in a file, and two streams.
class FileScene {
 public:
  static constexpr Numel numbers{1000};
  static constexpr Bytes bytes{4000};

  explicit FileScene(Runtime& runtime) : runtime_(runtime) {}

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
  Result<EventId> write_direct() {
    TESSERA_TRY(submit(files_, Wait{compute_}).status());
    return copy(files_, device_, file_, CopyRoute::device_to_nvme);
  }
  Result<EventId> read_direct() {
    TESSERA_TRY(submit(files_, Wait{compute_}).status());
    return copy(files_, file_, device_, CopyRoute::nvme_to_device);
  }
  // Makes all later work on the device run behind the files.
  Status wait_for_files() { return submit(compute_, Wait{files_}).status(); }
  Result<EventId> twice() {
    Compute work{.writes = {device_}};
    work.body = [](const BodyContext& c) {
      c.kernels().divide({c.write(0), DType::float32}, 0.5F);
    };
    return submit(compute_, std::move(work));
  }
  // Copies the values that were read to the device.
  Status bring_back() {
    TESSERA_TRY(wait_for_files());
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

struct FileSceneEnd {
  std::vector<Status> statuses;
  std::vector<std::string> reports;
  std::string leaks;
};

inline FileSceneEnd run_scene(StandIn& world, DriveHabits& habits,
                              const std::function<Status(FileScene&, ProcessRuntime&)>& program,
                              const Aio& aio = {}) {
  const TemporaryFolder folder;
  FileSceneEnd ended;
  ended.statuses = run_on(world,
                          [&](ProcessRuntime& host, Rank) -> Status {
                            FileScene scene(host);
                            TESSERA_TRY(scene.setup(folder.path()));
                            return program(scene, host);
                          },
                          {.deadline = 3'000'000'000,
                           .pinned_memory = Bytes{1 << 20},
                           .aio = aio,
                           .swap_io = [&habits](const MoveBlock& move) {
                             return std::make_unique<SlowDrive>(habits, move);
                           }});
  ended.reports = world.reports();
  ended.leaks = world.leaks();
  return ended;
}

}  // namespace tessera::test
