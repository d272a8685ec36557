// SPDX-License-Identifier: Apache-2.0
// Copies between device memory and files past host memory.
#include <unistd.h>

#include <atomic>
#include <set>

#include "engine/backends/cuda/gpu_direct_file.h"
#include "engine/files/block_sum.h"
#include "tests/backends/cuda/file_scene.h"
#include "tests/random.h"

namespace tessera {
namespace {

using test::Call;
using test::DriveHabits;
using test::FileScene;
using test::FileSceneEnd;
using test::StandIn;

FileSceneEnd run_direct(StandIn& world, DriveHabits& habits,
                        const std::function<Status(FileScene&, ProcessRuntime&)>& program) {
  return test::run_scene(world, habits, program, {.use_gds = true});
}

TEST_CASE("what the device wrote to a file it reads back, and other streams go on", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2, 3, 4, 5);
  INFO("seed " << seed);
  StandIn world({.seed = seed});
  DriveHabits habits{.looks = static_cast<int>(seed)};
  const FileSceneEnd ended =
      run_direct(world, habits, [&](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write_direct().status());
        TESSERA_TRY(scene.wait_for_files());
        TESSERA_TRY(scene.twice().status());
        TESSERA_ASSIGN(const float doubled, scene.first());
        CHECK(doubled == 2);
        for (int k = 0; k < 3; ++k) TESSERA_TRY(scene.read_direct().status());
        TESSERA_TRY(scene.wait_for_files());
        TESSERA_TRY(scene.release_file());
        TESSERA_ASSIGN(const float again, scene.first());
        CHECK(again == 1);
        return host.finish();
      });
  test::require_clean({ended.statuses, ended.reports, ended.leaks});
  CHECK(world.uses(Call::cufile_write, 0) == 1);
  CHECK(world.uses(Call::cufile_read, 0) == 3);
  CHECK(world.uses(Call::cufile_handle_register, 0) == 1);
  CHECK(world.uses(Call::cufile_buffer_register, 0) == 1);  // the same place every time
  CHECK(world.uses(Call::host_alloc, 0) > 0);
}

TEST_CASE("what a drive damaged on its way to the device ends the run before it is used",
          "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 1, 2);
  StandIn world({.seed = seed});
  DriveHabits habits{.damages = true};
  const FileSceneEnd ended =
      run_direct(world, habits, [](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write_direct().status());
        TESSERA_TRY(scene.read_direct().status());
        TESSERA_TRY(scene.wait_for_files());
        const auto first = scene.first();
        CHECK_FALSE(first.ok());
        return host.finish();
      });
  CHECK(ended.statuses[0].code() == Code::io_error);
  CHECK(ended.statuses[0].message().find(
            "reading numbers (4000 bytes, the block at offset 0) failed: its checksum differs") !=
        std::string::npos);
  CHECK(ended.reports.empty());
  CHECK(ended.leaks.empty());
}

TEST_CASE("checksums that were never computed are noticed", "[cuda]") {
  StandIn world({.seed = 3, .fault = {{.call = Call::block_sums, .use = 2, .dropped = true}}});
  DriveHabits habits;
  const FileSceneEnd ended =
      run_direct(world, habits, [](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write_direct().status());
        TESSERA_TRY(scene.wait_for_files());
        TESSERA_TRY(scene.twice().status());
        TESSERA_TRY(scene.write_direct().status());
        TESSERA_TRY(scene.read_direct().status());
        return host.finish();
      });
  CHECK(ended.statuses[0].code() == Code::io_error);
}

TEST_CASE("without cuFile a run that asks for it ends with a sentence", "[cuda]") {
  StandIn world({.cufile = false});
  DriveHabits habits;
  const FileSceneEnd ended = run_direct(
      world, habits, [](FileScene&, ProcessRuntime& host) -> Status { return host.finish(); });
  CHECK(ended.statuses[0].code() == Code::not_supported);
  CHECK(ended.statuses[0].message() == "use_gds needs NVIDIA's cuFile: the stand-in has none");
}

TEST_CASE("a runtime that was not told of GPUDirect Storage says so when it is used", "[cuda]") {
  StandIn world({});
  DriveHabits habits;
  const FileSceneEnd ended =
      test::run_scene(world, habits, [](FileScene& scene, ProcessRuntime& host) -> Status {
        TESSERA_TRY(scene.write_direct().status());
        return host.finish();
      });
  CHECK(ended.statuses[0].message() ==
        "copies between files and the device need CudaOptions::aio.use_gds");
  CHECK(ended.leaks.empty());
}

// A device of plain memory, and a cuFile that many threads call.
std::atomic<int> cufile_calls = 0;
std::set<void*> registered;  // under the lock of the file that is tested
constexpr int second_device = 1;
std::atomic<int> for_another_device = 0;  // calls

void look_at(int device) {
  if (device != second_device) ++for_another_device;
}

CufileApi plain_cufile() {
  return {[](int device, void** handle, int file) {
            look_at(device);
            *handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(file));
            return 0;
          },
          [](int device, void* base, std::size_t) {
            look_at(device);
            return registered.insert(base).second ? 0 : 5023;
          },
          [](int device, void*) { look_at(device); },
          [](int device, void* base) {
            look_at(device);
            CHECK(registered.erase(base) == 1);
          },
          [](int device, void* handle, void* base, std::size_t bytes, std::int64_t offset,
             std::int64_t at) -> std::int64_t {
            look_at(device);
            ++cufile_calls;
            const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
            return pread(file, static_cast<std::byte*>(base) + at, bytes, offset);
          },
          [](int device, void* handle, const void* base, std::size_t bytes, std::int64_t offset,
             std::int64_t at) -> std::int64_t {
            look_at(device);
            ++cufile_calls;
            const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
            return pwrite(file, static_cast<const std::byte*>(base) + at, bytes, offset);
          }};
}

// Threads have a current device of their own, which is the first one until somebody says otherwise.
TEST_CASE("blocks move to and from a device on several threads, each for that device",
          "[cuda][swap]") {
  constexpr std::size_t block = 4096;
  constexpr std::size_t size = 50 * block + 123;
  const test::TemporaryFolder folder;
  auto direct = std::make_shared<GpuDirectFile>(plain_cufile(), second_device);
  SwapFileOptions options{.block_size = Bytes{block}, .queue_depth = 4, .direct = false};
  options.io = make_thread_io(4, [direct](const BlockRequest& r) { return direct->move(r); });
  auto file = SwapFile::open(folder.path(), "rank 0", std::move(options));
  REQUIRE(file.ok());
  test::Random random(5);
  std::vector<std::byte> device(2 * size);
  const std::span first(device.data(), size);
  for (std::byte& b : first) b = static_cast<std::byte>(random.next());
  std::vector<std::uint64_t> sums;
  for (std::size_t at = 0; at < size; at += block) {
    sums.push_back(block_sum(first.subspan(at, std::min(block, size - at))));
  }
  const SlotId slot = (*file)->add("weight", Bytes{size});
  cufile_calls = 0;
  REQUIRE((*file)->finish((*file)->start_write_from_device(slot, first, sums)).ok());
  CHECK(cufile_calls == 51);
  // Read to places that overlap: what was registered there makes way.
  for (const std::size_t at : {size, std::size_t{0}, std::size_t{100}, size}) {
    const std::span to(device.data() + at, size);
    std::fill(to.begin(), to.end(), std::byte{});
    REQUIRE((*file)->finish((*file)->start_read_to_device(slot, to)).ok());
    CHECK(registered.contains(to.data()));
    std::vector<std::byte> host(size);  // host memory goes the usual way
    const int before = cufile_calls;
    REQUIRE((*file)->read(slot, host).ok());
    CHECK(cufile_calls == before);
    CHECK(std::equal(to.begin(), to.end(), host.begin()));
  }
  CHECK((*file)->check(slot, sums).ok());
  sums[7] ^= 1;
  CHECK((*file)->check(slot, sums).message().find("the block at offset 28672) failed: its") !=
        std::string::npos);
  file->reset();
  direct.reset();
  CHECK(registered.empty());
  CHECK(for_another_device == 0);
}

TEST_CASE("what cuFile says is not errno's word for it", "[cuda][swap]") {
  CufileApi api = plain_cufile();
  api.handle_register = [](int, void**, int) { return 5008; };
  const test::TemporaryFolder folder;
  const auto direct = std::make_shared<GpuDirectFile>(api, 0);
  SwapFileOptions options;
  options.io = make_thread_io(1, [direct](const BlockRequest& r) { return direct->move(r); });
  auto file = SwapFile::open(folder.path(), "rank 0", std::move(options));
  REQUIRE(file.ok());
  std::vector<std::byte> data(100);
  const SlotId slot = (*file)->add("weight", Bytes{100});
  const Status status =
      (*file)->finish((*file)->start_write_from_device(slot, data, {block_sum(data)}));
  CHECK(status.message().find("failed: cuFile's error 5008, of which its cufile.log says more; "
                              "without use_gds it goes through host memory") != std::string::npos);
}

}  // namespace
}  // namespace tessera
