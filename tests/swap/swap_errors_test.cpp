// SPDX-License-Identifier: Apache-2.0
// What goes wrong with files ends in one sentence, and nothing that was written before is lost.
#include <sys/mount.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "engine/swap/swap_file.h"
#include "tests/swap/faulty_io.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

constexpr std::size_t size = 20'000;

struct Scene {
  test::ScratchFolder folder;
  test::Fault fault;
  std::unique_ptr<SwapFile> file;
  SlotId slot;
  std::vector<std::byte> old = std::vector<std::byte>(size, std::byte{1});
  std::vector<std::byte> fresh = std::vector<std::byte>(size, std::byte{2});

  Scene() {
    SwapFileOptions options{.block_size = Bytes{4096}, .queue_depth = 3};
    options.io = std::make_unique<test::FaultyIo>(fault);
    auto opened = SwapFile::open(folder.path(), "rank 5", std::move(options));
    REQUIRE(opened.ok());
    file = std::move(*opened);
    slot = file->add("layers.7.weight", Bytes{size});
    REQUIRE(file->write(slot, old).ok());
  }
  std::string error(const Status& status) const {
    CHECK(status.code() == Code::io_error);
    std::string text(status.message());
    if (text.starts_with(folder.path())) text = "FOLDER" + text.substr(folder.path().size());
    return text;
  }
  void check_intact() {
    fault = {};
    std::vector<std::byte> data(size);
    const Status status = file->read(slot, data);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(data == old);
  }
};

TEST_CASE("a failed write is an error, and the slot is as it was (DeepSpeed Z12)", "[swap]") {
  Scene scene;
  scene.fault.after = [](const BlockRequest& r, std::int64_t result) {
    return r.writes && r.offset == 28'672 ? -EIO : result;
  };
  CHECK(scene.error(scene.file->write(scene.slot, scene.fresh)) ==
        "FOLDER: rank 5: writing layers.7.weight (20000 bytes, the block at offset 28672) failed: "
        "Input/output error");
  scene.check_intact();
}

TEST_CASE("a full disk is an error, and the slot is as it was", "[swap]") {
  Scene scene;
  scene.fault.after = [](const BlockRequest& r, std::int64_t result) {
    return r.writes && r.offset >= 32'000 ? -ENOSPC : result;
  };
  CHECK(scene.error(scene.file->write(scene.slot, scene.fresh)) ==
        "FOLDER: rank 5: writing layers.7.weight (20000 bytes, the block at offset 32768) failed: "
        "no space left; what was there before is kept: free some or choose another nvme_path");
  scene.check_intact();
}

TEST_CASE("a read that ends early is an error (DeepSpeed Z12)", "[swap]") {
  Scene scene;
  scene.fault.after = [](const BlockRequest& r, std::int64_t result) {
    return r.offset == 8192 ? 0 : result;
  };
  std::vector<std::byte> data(size);
  CHECK(scene.error(scene.file->read(scene.slot, data)) ==
        "FOLDER: rank 5: reading layers.7.weight (20000 bytes, the block at offset 8192) failed: "
        "it ended after 0 of 4096 bytes");
  scene.check_intact();
}

TEST_CASE("a block that moves in parts is continued, whichever way it goes", "[swap]") {
  const test::ScratchFolder folder;
  const bool direct = GENERATE(false, true);
  test::Fault fault;
  SwapFileOptions options{.block_size = Bytes{16'384}, .queue_depth = 2, .direct = direct};
  options.io = std::make_unique<test::FaultyIo>(fault);
  auto file = SwapFile::open(folder.path(), "rank 0", std::move(options));
  REQUIRE(file.ok());
  int parts = 0;
  fault.before = [&](BlockRequest& r) {  // a part that is no multiple of a page
    if (r.size <= 8192) return;
    ++parts;
    r.size = (*file)->direct() ? 8192 : 5000;
  };
  const SlotId slot = (*file)->add("p", Bytes{size});
  std::vector<std::byte> data(size);
  for (std::size_t k = 0; k < size; ++k) data[k] = static_cast<std::byte>(k * 7);
  REQUIRE((*file)->write(slot, data).ok());
  std::vector<std::byte> read(size);
  REQUIRE((*file)->read(slot, read).ok());
  CHECK(read == data);
  CHECK(parts >= 2);
}

TEST_CASE("what was damaged on the drive is not read as if it were not", "[swap]") {
  Scene scene;
  scene.fault.after = [](const BlockRequest& r, std::int64_t result) {
    if (!r.writes && r.offset == 4096) r.data[100] ^= std::byte{4};
    return result;
  };
  std::vector<std::byte> data(size);
  CHECK(scene.error(scene.file->read(scene.slot, data)) ==
        "FOLDER: rank 5: reading layers.7.weight (20000 bytes, the block at offset 4096) failed: "
        "its checksum differs from what was written; the drive or its file is damaged");
  scene.check_intact();
}

TEST_CASE("interrupted requests are repeated", "[swap]") {
  Scene scene;
  int interrupted = 0;
  scene.fault.after = [&](const BlockRequest&, std::int64_t result) {
    return interrupted < 4 ? (++interrupted, std::int64_t{-EINTR}) : result;
  };
  CHECK(scene.file->write(scene.slot, scene.fresh).ok());
  CHECK(interrupted == 4);
}

TEST_CASE("a slot that was never written and a folder that is not there are errors", "[swap]") {
  Scene scene;
  const SlotId empty = scene.file->add("h.0.bias", Bytes{8});
  std::vector<std::byte> data(8);
  CHECK(scene.error(scene.file->read(empty, data)).ends_with("nothing was written there yet"));
  const auto file = SwapFile::open("/nowhere", "rank 2", {});
  CHECK(file.status().message() ==
        "/nowhere: rank 2 cannot make its swap file there: No such file or directory; nvme_path "
        "must be a folder that can be written");
}

// A real one, where the test may mount a small file system.
TEST_CASE("a disk that is really full loses nothing", "[swap]") {
  test::ScratchFolder folder;
  if (mount("tessera", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    WARN("skipped: mounting needs rights that this process has not");
    return;
  }
  {
    auto file = SwapFile::open(folder.path(), "rank 0", {.block_size = Bytes{65'536}});
    REQUIRE(file.ok());
    const SlotId slot = (*file)->add("p", Bytes{600'000});
    std::vector<std::byte> old(600'000, std::byte{1}), fresh(600'000, std::byte{2});
    REQUIRE((*file)->write(slot, old).ok());
    const Status full = (*file)->write(slot, fresh);
    CHECK(full.code() == Code::io_error);
    CHECK(full.message().find("no space left") != std::string::npos);
    REQUIRE((*file)->read(slot, fresh).ok());
    CHECK(fresh == old);
  }
  CHECK(umount(folder.path().c_str()) == 0);
}

}  // namespace
}  // namespace tessera
