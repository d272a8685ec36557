// SPDX-License-Identifier: Apache-2.0
// How fast a swap file is written and read: scripts/bench-nvme runs it beside fio.
//
//   bench_swap_file FOLDER GIB BLOCK_KIB DEPTH ROUNDS COMMAND
//
// Writes GIB, then reads it ROUNDS times and runs COMMAND after each. First line: the io, whether
// it is direct, bytes per second of writing; then one line a round: bytes per second of reading.
// Checksums are part of what is measured.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "engine/swap/swap_file.h"
#include "tests/random.h"

namespace tessera {
namespace {

constexpr std::size_t partition = std::size_t{256} << 20;  // of a large layer

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void must(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", status.message());
  std::exit(1);
}

int run(char** words) {
  auto file = SwapFile::open(
      words[1], "bench",
      {.block_size = Bytes{std::atoll(words[3]) << 10}, .queue_depth = std::atoi(words[4])});
  must(file.status());
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, partition));
  test::Random random(1);
  for (std::size_t k = 0; k < partition; k += sizeof(std::uint64_t)) {  // nothing that compresses
    const std::uint64_t word = random.next();
    std::memcpy(memory + k, &word, sizeof(word));
  }
  const auto count = static_cast<std::size_t>((std::atoll(words[2]) << 30)) / partition;
  const double bytes = static_cast<double>(partition * count);
  std::vector<SlotId> slots;
  for (std::size_t k = 0; k < count; ++k) {
    slots.push_back((*file)->add("partition", Bytes{std::int64_t{partition}}));
  }
  const double writing = seconds_of([&] {
    for (const SlotId slot : slots) must((*file)->write(slot, {memory, partition}));
  });
  fmt::print("{} {} {:.0f}\n", (*file)->io_name(), (*file)->direct() ? 1 : 0, bytes / writing);
  for (int round = 0; round < std::atoi(words[5]); ++round) {
    const double reading = seconds_of([&] {
      for (const SlotId slot : slots) must((*file)->read(slot, {memory, partition}));
    });
    fmt::print("{:.0f}\n", bytes / reading);
    if (std::system(words[6]) != 0) return 1;
  }
  std::free(memory);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int count, char** words) {
  if (count == 7) return tessera::run(words);
  fmt::print(stderr, "usage: bench_swap_file FOLDER GIB BLOCK_KIB DEPTH ROUNDS COMMAND\n");
  return 2;
}
