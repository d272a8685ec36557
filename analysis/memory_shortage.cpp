// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/memory_shortage.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tessera::analysis {
namespace {

// use(bytes) for each run of free neighbours.
template <class F>
void for_each_free_piece(const storage::MemoryShortageRow& shortage, F use) {
  const MemoryBlock* before = nullptr;
  Bytes run{};
  for (const MemoryBlock& block : shortage.map) {
    const bool joins = before != nullptr && before->buffer < 0 && block.buffer < 0 &&
                       before->address + before->bytes == block.address &&
                       before->segment == block.segment;
    if (!joins && run > Bytes{}) use(run);
    if (!joins) run = {};
    if (block.buffer < 0) run += block.bytes;
    before = &block;
  }
  if (run > Bytes{}) use(run);
}

}  // namespace

std::optional<std::size_t> sample_of(const storage::MemoryShortageRow& shortage,
                                     const storage::MemorySeries& series) {
  const auto first = std::lower_bound(series.time.begin(), series.time.end(), shortage.time);
  for (auto k = static_cast<std::size_t>(first - series.time.begin()); k < series.time.size();
       ++k) {
    const bool grows = series.delta[k] > Bytes{} && series.reserved[k] > shortage.capacity;
    if (grows && series.buffer[k] == shortage.buffer) return k;
  }
  return {};
}

std::vector<Room> free_rooms(const storage::MemoryShortageRow& shortage) {
  std::map<std::int64_t, Room, std::greater<>> rooms;
  for_each_free_piece(shortage, [&](Bytes bytes) {
    const auto floor = std::bit_floor(static_cast<std::uint64_t>(bytes.value));
    Room& room = rooms[static_cast<std::int64_t>(floor)];
    room.from = Bytes{static_cast<std::int64_t>(floor)};
    room.bytes += bytes;
    ++room.count;
  });
  std::vector<Room> out;
  for (const auto& [from, room] : rooms) out.push_back(room);
  return out;
}

double fragmentation(const storage::MemoryShortageRow& shortage) {
  Bytes all{}, largest{};
  for_each_free_piece(shortage, [&](Bytes bytes) {
    all += bytes;
    largest = std::max(largest, bytes);
  });
  if (all <= Bytes{}) return 0;
  return 1 - static_cast<double>(largest.value) / static_cast<double>(all.value);
}

}  // namespace tessera::analysis
