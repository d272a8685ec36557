// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/memory_timeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "tests/random.h"
#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

constexpr std::int32_t streams = 4;

struct Told {
  Time time;
  std::int32_t buffer;
  Bytes delta;

  bool operator==(const Told&) const = default;
};

std::vector<Told> told(const std::vector<MemorySample>& samples, Rank rank) {
  std::vector<Told> all;
  for (const MemorySample& s : samples) {
    if (s.rank == rank) all.push_back({s.time, s.buffer, s.delta});
  }
  return all;
}

// What goes comes before what comes, else as it was told.
void sort(std::vector<Told>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Told& a, const Told& b) {
    return std::tuple(a.time, a.delta > Bytes{0}) < std::tuple(b.time, b.delta > Bytes{0});
  });
}

TEST_CASE("changes come by time, of each rank and whatever the order of its streams",
          "[memory_timeline]") {
  for (std::uint64_t seed = 0; seed < test::generated(60); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const std::vector<Rank> ranks{3, 8};
    MemoryTimeline timeline(ranks);
    std::vector<std::vector<Told>> expected(ranks.size()), pending(ranks.size());
    std::vector<std::vector<Time>> now(ranks.size(), std::vector<Time>(streams));
    test::VectorSink sink;
    const bool wild = random.chance(30);  // times that follow no stream
    Time sent = 0;
    for (std::int32_t k = 0; k < 400; ++k) {
      const auto stream = static_cast<std::size_t>(random.below(streams));
      const Bytes delta{(random.chance(50) ? 1 : -1) * (1 + random.below(100))};
      for (std::size_t slot = 0; slot < ranks.size(); ++slot) {
        Time& time = now[slot][stream];
        time = wild ? random.below(300) : time + random.below(4);
        timeline.change(slot, time, k, MemoryClass::activations, delta, {});
        pending[slot].push_back({std::max(time, sent), k, delta});
      }
      if (!random.chance(2)) continue;
      const Time horizon = sent + random.below(40);
      for (std::size_t slot = 0; slot < ranks.size(); ++slot) {
        timeline.flush(slot, horizon, sink);
        sort(pending[slot]);
        const auto end = std::partition_point(pending[slot].begin(), pending[slot].end(),
                                              [&](const Told& t) { return t.time < horizon; });
        expected[slot].insert(expected[slot].end(), pending[slot].begin(), end);
        pending[slot].erase(pending[slot].begin(), end);
      }
      sent = std::max(sent, horizon);
    }
    for (std::size_t slot = 0; slot < ranks.size(); ++slot) {
      timeline.flush(slot, 1'000'000, sink);
      sort(pending[slot]);
      expected[slot].insert(expected[slot].end(), pending[slot].begin(), pending[slot].end());
      CHECK(told(sink.samples, ranks[slot]) == expected[slot]);
    }
  }
}

TEST_CASE("what is reserved grows by pages and falls where an allocator gives back",
          "[memory_timeline]") {
  MemoryTimeline timeline({0});
  test::VectorSink sink;
  const MemoryClass kind = MemoryClass::activations;
  timeline.change(0, 10, 0, kind, Bytes{4 << 20}, Bytes{9 << 20});
  timeline.change(0, 20, 0, kind, Bytes{-(4 << 20)}, {});
  timeline.gave_back(0, 30, Bytes{2 << 20});
  timeline.change(0, 30, 1, kind, Bytes{1 << 20}, Bytes{1 << 20});
  timeline.flush(0, 100, sink);
  REQUIRE(sink.samples.size() == 3);
  CHECK(sink.samples[0].reserved >= Bytes{9 << 20});
  CHECK(sink.samples[1].reserved == sink.samples[0].reserved);
  CHECK(sink.samples[2].reserved == Bytes{2 << 20});
  CHECK(sink.samples[2].allocated == Bytes{1 << 20});
}

}  // namespace
}  // namespace tessera
