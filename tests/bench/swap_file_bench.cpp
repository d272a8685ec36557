// SPDX-License-Identifier: Apache-2.0
// How fast a swap file is read and written: scripts/bench-nvme runs it beside fio.
//
//   bench_swap_file FOLDER GIB [BLOCK_KIB DEPTH]
//
// One line: bytes per second of writing and of reading, the io, and whether it is direct. Reading
// is checked: checksums are part of what is measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "engine/swap/swap_file.h"

namespace tessera {
namespace {

constexpr std::size_t partition = std::size_t{256} << 20;  // of a large layer

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int run(const std::string& folder, std::int64_t gib, std::int64_t block_kib, int depth) {
  auto file =
      SwapFile::open(folder, "bench", {.block_size = Bytes{block_kib << 10}, .queue_depth = depth});
  if (!file.ok()) return fmt::print(stderr, "{}\n", file.status().message()), 1;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, partition));
  for (std::size_t k = 0; k < partition; ++k) memory[k] = static_cast<std::byte>(k * 2654435761U);
  const auto count = static_cast<int>((gib << 30) / static_cast<std::int64_t>(partition));
  std::vector<SlotId> slots;
  double begin = seconds();
  for (int k = 0; k < count; ++k) {
    slots.push_back((*file)->add("partition", Bytes{std::int64_t{partition}}));
    if (const Status s = (*file)->write(slots.back(), {memory, partition}); !s.ok()) {
      return fmt::print(stderr, "{}\n", s.message()), 1;
    }
  }
  const double bytes = static_cast<double>(partition) * count;
  const double written = bytes / (seconds() - begin);
  begin = seconds();
  for (const SlotId slot : slots) {
    if (const Status s = (*file)->read(slot, {memory, partition}); !s.ok()) {
      return fmt::print(stderr, "{}\n", s.message()), 1;
    }
  }
  const double read = bytes / (seconds() - begin);
  fmt::print("{:.0f} {:.0f} {} {}\n", written, read, (*file)->io_name(),
             (*file)->direct() ? "direct" : "buffered");
  std::free(memory);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int count, char** words) {
  if (count != 3 && count != 5) {
    fmt::print(stderr, "usage: bench_swap_file FOLDER GIB [BLOCK_KIB DEPTH]\n");
    return 2;
  }
  const std::int64_t block_kib = count == 5 ? std::atoll(words[3]) : 1024;
  const int depth = count == 5 ? std::atoi(words[4]) : 8;
  return tessera::run(words[1], std::atoll(words[2]), block_kib, depth);
}
