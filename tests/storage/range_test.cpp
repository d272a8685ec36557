// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <thread>

#include "tests/random.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::Lane;
using storage::TraceReader;

/// The definition: a span intersects [begin, end); one without duration counts where it begins.
std::vector<Lane> filtered(const std::vector<Lane>& lanes, Rank rank, Time begin, Time end) {
  std::vector<Lane> result;
  for (const Lane& lane : lanes) {
    if (lane.rank != rank) continue;
    Lane part;
    part.rank = rank;
    part.stream = lane.stream;
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const bool starts_inside = begin <= lane.begin[i] && lane.begin[i] < end;
      const bool covers_begin = begin < end && lane.begin[i] < begin && begin < lane.end[i];
      if (!starts_inside && !covers_begin) continue;
      part.op.push_back(lane.op[i]);
      part.begin.push_back(lane.begin[i]);
      part.ready.push_back(lane.ready[i]);
      part.end.push_back(lane.end[i]);
    }
    if (!part.op.empty()) result.push_back(std::move(part));
  }
  return result;
}

TEST_CASE("a time range gives exactly the spans that intersect it", "[storage][range]") {
  const test::Folder folder("range");
  const test::Recording recording =
      test::random_recording(21, {.ranks = 3, .steps = 2, .ops = 20'000});
  test::write(recording, folder / "run.tessera");
  auto reader = TraceReader::open(folder / "run.tessera");
  REQUIRE(reader.ok());
  const Lane& longest = recording.lanes.front();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    // Bounds at, just before and just after real begins and ends.
    const auto bound = [&] {
      const auto i =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(longest.op.size())));
      return (random.chance(50) ? longest.begin[i] : longest.end[i]) + random.below(3) - 1;
    };
    const Time begin = bound();
    const Time end = random.chance(50) ? bound() : begin + random.below(100'000);
    const Rank rank = static_cast<Rank>(random.below(3));
    auto lanes = reader->lanes(rank, begin, end);
    REQUIRE(lanes.ok());
    const std::vector<Lane> expected = filtered(recording.lanes, rank, begin, end);
    REQUIRE(lanes->size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK((*lanes)[i].stream == expected[i].stream);
      CHECK((*lanes)[i].op == expected[i].op);
      CHECK((*lanes)[i].begin == expected[i].begin);
      CHECK((*lanes)[i].ready == expected[i].ready);
      CHECK((*lanes)[i].end == expected[i].end);
    }
  }
}

TEST_CASE("one reader may be used from several threads", "[storage][range]") {
  const test::Folder folder("threads");
  const test::Recording recording = test::random_recording(23, {.ranks = 8, .ops = 4000});
  test::write(recording, folder / "run.tessera");
  auto reader = TraceReader::open(folder / "run.tessera");
  REQUIRE(reader.ok());
  std::vector<std::size_t> spans(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int again = 0; again < 5; ++again) {
        auto lanes = reader->lanes(static_cast<Rank>(2 * i), 0, 1'000'000'000'000);
        spans[i] = 0;
        for (const Lane& lane : *lanes) spans[i] += lane.op.size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::size_t> expected(4);
  for (const Lane& lane : recording.lanes) {
    expected[static_cast<std::size_t>(lane.rank / 2)] += lane.op.size();
  }
  CHECK(spans == expected);
}

TEST_CASE("a rank without spans and a rank that does not exist have no lanes", "[storage][range]") {
  const test::Folder folder("no_lanes");
  test::write(test::random_recording(22), folder / "run.tessera");
  auto reader = TraceReader::open(folder / "run.tessera");
  REQUIRE(reader.ok());
  for (const Rank rank : {1, -1, 1000}) {
    auto lanes = reader->lanes(rank, 0, reader->info().end);
    REQUIRE(lanes.ok());
    CHECK(lanes->empty());
    auto memory = reader->memory(rank);
    REQUIRE(memory.ok());
    CHECK(memory->time.empty());
  }
  auto nothing = reader->lanes(0, 5, 5);
  REQUIRE(nothing.ok());
  CHECK(nothing->empty());
  auto no_op = reader->waits(-7, -6);
  REQUIRE(no_op.ok());
  CHECK(no_op->op.empty());
}

TEST_CASE("many lanes at once are written in bounded memory and come back in order",
          "[storage][range]") {
  const test::Folder folder("many_lanes");
  constexpr Rank ranks = 20'000;
  constexpr std::int32_t ops = 140;  // more than all lanes may hold together
  {
    auto writer = storage::TraceWriter::create(folder / "run.tessera");
    REQUIRE(writer.ok());
    TraceRun run;
    run.ranks = ranks;
    for (Rank rank = 0; rank < ranks; ++rank) run.recorded_ranks.push_back(rank);
    (*writer)->begin(run);
    (*writer)->stream({0, "compute", StreamRole::compute});
    for (std::int32_t op = 0; op < ops; ++op) {
      (*writer)->op({.id = op, .stream = 0});
      std::vector<Time> begin(ranks), end(ranks);
      for (Rank rank = 0; rank < ranks; ++rank) {
        begin[static_cast<std::size_t>(rank)] = op * 10 + rank % 10;
        end[static_cast<std::size_t>(rank)] = op * 10 + rank % 10 + 5;
      }
      (*writer)->spans({op, run.recorded_ranks, begin, begin, end});
    }
    REQUIRE((*writer)->finish().ok());
  }
  auto reader = TraceReader::open(folder / "run.tessera");
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
  for (const Rank rank : {0, 1, 77, ranks - 1}) {
    auto lanes = reader->lanes(rank, 0, ops * 20);
    REQUIRE(lanes.ok());
    REQUIRE(lanes->size() == 1);
    REQUIRE(lanes->front().op.size() == ops);
    for (std::int32_t op = 0; op < ops; ++op) {
      const auto i = static_cast<std::size_t>(op);
      CHECK((lanes->front().op[i] == op && lanes->front().begin[i] == op * 10 + rank % 10));
    }
  }
}

}  // namespace
}  // namespace tessera
