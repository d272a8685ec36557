// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/memory_holders.h"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "tessera/analysis/memory_shortage.h"
#include "tests/random.h"

namespace tessera::analysis {
namespace {

const std::vector<storage::BufferRow> buffers = {
    {0, "weight", "h.0", MemoryClass::sharded_parameters, Bytes{40}},
    {1, "ag_out", "h.0", MemoryClass::all_gather_buffers, Bytes{30}},
    {2, "ag_out", "h.1", MemoryClass::all_gather_buffers, Bytes{50}}};

void change(storage::MemorySeries& series, std::int32_t buffer, std::int64_t delta,
            std::int64_t reserved) {
  const Bytes before = series.allocated.empty() ? Bytes{} : series.allocated.back();
  series.time.push_back(std::ssize(series.time) * 10);
  series.buffer.push_back(buffer);
  series.memory_class.push_back(buffers[static_cast<std::size_t>(buffer)].memory_class);
  series.delta.push_back(Bytes{delta});
  series.allocated.push_back(before + Bytes{delta});
  series.reserved.push_back(Bytes{reserved});
}

storage::MemorySeries made() {
  storage::MemorySeries series;
  change(series, 0, 40, 40);
  change(series, 1, 30, 70);
  change(series, 1, -30, 70);
  change(series, 1, 30, 70);
  change(series, 1, 30, 100);
  change(series, 1, -30, 100);
  change(series, 2, 50, 150);
  return series;
}

TEST_CASE("moments of a long series are those that a walk from the begin finds",
          "[analysis][holders][property]") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    test::Random random(seed);
    storage::MemorySeries series;
    std::array<std::int64_t, 3> held{};
    std::vector<std::array<std::int64_t, 3>> after;
    while (after.size() < 40'000) {
      const auto k = static_cast<std::size_t>(random.below(3));
      const std::int64_t size = buffers[k].bytes.value;
      const std::int64_t delta = held[k] > 0 && random.chance(50) ? -size : size;
      held[k] += delta;
      change(series, static_cast<std::int32_t>(k), delta, 1 << 30);
      after.push_back(held);
    }
    const HeldMemory memory(series);
    INFO("seed=" << seed);
    for (const std::size_t sample :
         {std::size_t{0}, std::size_t{16383}, std::size_t{16384}, std::size_t{33'000},
          std::size_t{39'999}, static_cast<std::size_t>(random.below(40'000))}) {
      std::array<std::int64_t, 3> found{};
      for (const Holder& holder : memory.at(series, buffers, sample).holders) {
        found[holder.unit == "h.1" ? 2 : holder.name == "weight" ? 0 : 1] = holder.bytes.value;
      }
      INFO(sample);
      CHECK(found == after[sample]);
    }
  }
}

TEST_CASE("holders are what is not released, and sum to the allocator's counter",
          "[analysis][holders]") {
  const storage::MemorySeries series = made();
  for (std::size_t sample = 0; sample < series.time.size(); ++sample) {
    const MemoryMoment moment = memory_at(series, buffers, sample);
    const Bytes held =
        std::accumulate(moment.holders.begin(), moment.holders.end(), Bytes{},
                        [](Bytes sum, const Holder& holder) { return sum + holder.bytes; });
    const Bytes classes = std::accumulate(moment.by_class.begin(), moment.by_class.end(), Bytes{});
    CHECK(held == moment.allocated);
    CHECK(classes == moment.reserved);
  }
  const MemoryMoment moment = memory_at(series, buffers, 4);
  REQUIRE(moment.holders.size() == 2);
  CHECK(moment.holders[0].name == "ag_out");
  CHECK(moment.holders[0].bytes == Bytes{60});
  CHECK(moment.holders[0].count == 2);
  CHECK(memory_at(series, buffers, 99).allocated == Bytes{120});
  CHECK(memory_at({}, buffers, 0).holders.empty());
}

TEST_CASE("the request that did not fit is found among the samples, and what was free in pieces",
          "[analysis][holders]") {
  storage::MemorySeries series;
  change(series, 0, 40, 40);
  change(series, 1, 30, 70);
  change(series, 1, -30, 70);
  change(series, 2, 50, 120);
  storage::MemoryShortageRow shortage;
  shortage.time = 15;
  shortage.buffer = 2;
  shortage.request = Bytes{50};
  shortage.capacity = Bytes{75};
  // The neighbours 48 and 52 are of two segments; 60 and 61 are one piece.
  shortage.map = {
      {Bytes{0}, Bytes{40}, Bytes{0}, -1, 0},   {Bytes{40}, Bytes{8}, Bytes{0}, -1, 1},
      {Bytes{48}, Bytes{4}, Bytes{0}, -1, -1},  {Bytes{52}, Bytes{4}, Bytes{52}, -1, -1},
      {Bytes{56}, Bytes{4}, Bytes{52}, -1, 1},  {Bytes{60}, Bytes{1}, Bytes{52}, -1, -1},
      {Bytes{61}, Bytes{14}, Bytes{52}, -1, -1}};
  CHECK(sample_of(shortage, series) == std::optional<std::size_t>(3));
  const std::vector<Room> rooms = free_rooms(shortage);
  REQUIRE(rooms.size() == 2);
  CHECK(rooms[0].from == Bytes{8});
  CHECK(rooms[0].bytes == Bytes{15});
  CHECK(rooms[1].bytes == Bytes{8});
  CHECK(rooms[1].count == 2);
  CHECK(fragmentation(shortage) == Approx(8.0 / 23));
  shortage.time = 31;
  CHECK_FALSE(sample_of(shortage, series));
  shortage.map.clear();
  CHECK(fragmentation(shortage) == 0);
}

}  // namespace
}  // namespace tessera::analysis
