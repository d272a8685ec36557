// SPDX-License-Identifier: Apache-2.0
// Files of partitions: what is read is what was written, whatever the sizes, places and orders.
#include "engine/swap/swap_file.h"

#include <catch2/catch.hpp>

#include "engine/files/block_sum.h"
#include "tests/random.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

using test::Random;

std::vector<std::byte> random_bytes(Random& random, std::size_t n) {
  std::vector<std::byte> data(n);
  for (std::byte& b : data) b = static_cast<std::byte>(random.next());
  return data;
}

std::unique_ptr<SwapFile> opened(const std::string& folder, SwapFileOptions options) {
  auto file = SwapFile::open(folder, "rank 0", std::move(options));
  INFO(file.status().message());
  REQUIRE(file.ok());
  return std::move(*file);
}

TEST_CASE("a slot reads as it was last written, whatever the sizes, the io and the order",
          "[swap][property]") {
  const std::uint64_t seed = GENERATE(range(1, 61));
  INFO("seed=" << seed);
  Random random(seed);
  const test::ScratchFolder folder;
  auto file = opened(folder.path(), {.block_size = Bytes{4096 * (1 + random.below(4))},
                                     .queue_depth = static_cast<int>(1 + random.below(6)),
                                     .threads = static_cast<int>(1 + random.below(3)),
                                     .uring = random.chance(50),
                                     .direct = random.chance(70)});
  INFO(file->io_name() << (file->direct() ? ", direct" : ""));
  struct Known {
    SlotId id;
    std::vector<std::byte> now;
  };
  std::vector<Known> slots;
  for (int k = 0; k < 5; ++k) {
    const auto n = static_cast<std::size_t>(random.below(60'000));
    slots.push_back({file->add("p" + std::to_string(k), Bytes{static_cast<std::int64_t>(n)}), {}});
    slots.back().now = random_bytes(random, n);
    REQUIRE(file->write(slots.back().id, slots.back().now).ok());
  }
  for (int round = 0; round < 4; ++round) {  // all at the same time, finished in another order
    struct Flying {
      TransferId id;
      Known* slot;
      bool reads;
      std::vector<std::byte> data;
    };
    std::vector<Flying> flying;
    for (Known& slot : slots) {
      flying.push_back({{}, &slot, random.chance(50), {}});
      Flying& f = flying.back();
      f.data =
          f.reads ? std::vector<std::byte>(slot.now.size()) : random_bytes(random, slot.now.size());
    }
    for (Flying& f : flying) {
      f.id = f.reads ? file->start_read(f.slot->id, f.data) : file->start_write(f.slot->id, f.data);
    }
    while (!flying.empty()) {
      const auto k = static_cast<std::size_t>(random.below(std::ssize(flying)));
      const Status status = file->finish(flying[k].id);
      INFO(status.message());
      REQUIRE(status.ok());
      if (flying[k].reads) {
        REQUIRE(flying[k].data == flying[k].slot->now);
      } else {
        flying[k].slot->now = flying[k].data;
      }
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
}

TEST_CASE("a read is over when its own blocks are there, not when all reads are (DeepSpeed Z7)",
          "[swap]") {
  const test::ScratchFolder folder;
  std::vector<std::string> ended;
  auto file =
      opened(folder.path(),
             {.block_size = Bytes{4096}, .queue_depth = 1, .on_done = [&](const SwapTransfer& t) {
                if (!t.writes) ended.emplace_back(t.slot);
              }});
  std::vector<std::byte> data(40'000, std::byte{7});
  const SlotId first = file->add("first", Bytes{40'000});
  const SlotId second = file->add("second", Bytes{40'000});
  REQUIRE(file->write(first, data).ok());
  REQUIRE(file->write(second, data).ok());
  std::vector<std::byte> a(40'000), b(40'000);
  const TransferId one = file->start_read(first, a);
  const TransferId two = file->start_read(second, b);
  REQUIRE(file->finish(one).ok());
  CHECK(a == data);
  CHECK(ended == std::vector<std::string>{"first"});
  CHECK(b.back() != std::byte{7});  // its last block was not even asked for
  REQUIRE(file->finish(two).ok());
  CHECK(b == data);
}

// Nothing is over before it is opened.
class GatedIo final : public BlockIo {
 public:
  explicit GatedIo(const bool& open) : open_(open) {}
  int start(const BlockRequest& request) override { return io_->start(request); }
  BlockCompletion wait() override { return io_->wait(); }
  std::optional<BlockCompletion> poll() override {
    return open_ ? std::optional(io_->wait()) : std::nullopt;
  }
  const char* name() const override { return "gated"; }

 private:
  const bool& open_;
  std::unique_ptr<BlockIo> io_ = make_thread_io(1);
};

TEST_CASE("a transfer can be asked whether it is over", "[swap]") {
  const test::ScratchFolder folder;
  bool open = false;
  auto file =
      opened(folder.path(),
             {.block_size = Bytes{4096}, .queue_depth = 4, .io = std::make_unique<GatedIo>(open)});
  std::vector<std::byte> data(16'000, std::byte{3});
  const SlotId slot = file->add("p", Bytes{16'000});
  CHECK_FALSE(file->wait());  // for nothing
  const TransferId write = file->start_write(slot, data);
  CHECK_FALSE(*file->test(write));
  open = true;
  CHECK(*file->test(write));
  std::vector<std::byte> back(16'000);
  open = false;
  const TransferId read = file->start_read(slot, back);
  for (int block = 0; block < 4; ++block) {
    CHECK_FALSE(*file->test(read));
    CHECK(file->wait());
  }
  CHECK(*file->test(read));
  CHECK(back == data);
}

TEST_CASE("every transfer says how long it took", "[swap]") {
  const test::ScratchFolder folder;
  Time now = 0;
  std::vector<SwapTransfer> seen;
  auto file = opened(folder.path(), {.clock = [&now] { return now += 10; },
                                     .on_done = [&](const SwapTransfer& t) { seen.push_back(t); }});
  std::vector<std::byte> data(5000, std::byte{1});
  const SlotId slot = file->add("p", Bytes{5000});
  REQUIRE(file->write(slot, data).ok());
  REQUIRE(file->read(slot, data).ok());
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].writes);
  CHECK(seen[0].bytes == Bytes{5000});
  CHECK(seen[0].end - seen[0].begin == 10);
  CHECK(!seen[1].writes);
}

TEST_CASE("a place is used again once its slot has moved or is gone", "[swap]") {
  const test::ScratchFolder folder;
  auto file = opened(folder.path(), {});
  std::vector<std::byte> data(8192);
  SlotId slot = file->add("p", Bytes{8192});
  for (int k = 0; k < 20; ++k) REQUIRE(file->write(slot, data).ok());
  CHECK(file->size() == Bytes{2 * 8192});  // the old place and the new one
  file->remove(slot);
  slot = file->add("q", Bytes{8192});
  REQUIRE(file->write(slot, data).ok());
  CHECK(file->size() == Bytes{2 * 8192});
}

TEST_CASE("the checksum of a block changes with every bit of it", "[swap]") {
  Random random(3);
  std::vector<std::byte> data = random_bytes(random, 197);
  const std::uint64_t whole = block_sum(data);
  for (std::size_t k = 0; k < data.size(); ++k) {
    for (int bit = 0; bit < 8; ++bit) {
      data[k] ^= static_cast<std::byte>(1 << bit);
      REQUIRE(block_sum(data) != whole);
      data[k] ^= static_cast<std::byte>(1 << bit);
    }
  }
  CHECK(block_sum({data.data(), 196}) != whole);
}

}  // namespace
}  // namespace tessera
