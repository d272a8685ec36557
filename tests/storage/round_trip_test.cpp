// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "tessera/storage/same_content.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::TraceReader;
using test::Folder;
using test::random_recording;
using test::Recording;

void check_round_trip(const Recording& recording, const std::string& path) {
  const std::string hash = test::write(recording, path);
  CHECK(hash.size() == 16);
  auto reader = TraceReader::open(path);
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  CHECK(reader->info().content_hash == hash);
  const Status verified = reader->verify();
  INFO(verified.message());
  CHECK(verified.ok());
  test::check_equal(*reader, recording);
}

TEST_CASE("what a sink was given is what a reader gives back", "[storage]") {
  const Folder folder("round_trip");
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed=" << seed);
    check_round_trip(random_recording(seed), folder / "run.tessera");
  }
}

TEST_CASE("lanes and memory longer than a chunk come back whole", "[storage]") {
  const Folder folder("long_lanes");
  check_round_trip(
      random_recording(9, {.ranks = 3, .steps = 4, .ops = 30'000, .samples_per_rank = 9'000}),
      folder / "run.tessera");
}

TEST_CASE("an empty trace is a trace", "[storage]") {
  const Folder folder("empty_trace");
  Recording empty;
  empty.rank_steps.ranks = 1;
  check_round_trip(empty, folder / "run.tessera");
}

TEST_CASE("a path may hold what URIs treat specially", "[storage]") {
  const Folder folder("strange ?names#100%:'\"");
  check_round_trip(random_recording(10), folder / ":memory:?mode=memory&x=%20 é.tessera");
}

TEST_CASE("the content hash is that of the content, not of the writer", "[storage]") {
  const Folder folder("content_hash");
  Recording recording = random_recording(11);
  const std::string hash = test::write(recording, folder / "a");
  recording.info.run.version += " and later";
  CHECK(test::write(recording, folder / "b") == hash);
  recording.info.run.seed ^= 1;
  CHECK(test::write(recording, folder / "c") != hash);
  recording.info.run.seed ^= 1;
  recording.lanes.back().end.back() += 1;
  CHECK(test::write(recording, folder / "d") != hash);
  recording.lanes.back().end.back() -= 1;
  recording.ops.front().label += "!";
  CHECK(test::write(recording, folder / "e") != hash);
}

TEST_CASE("traces say the same if they hold the same, in whatever bytes", "[storage]") {
  const Folder folder("same-content");
  const Recording recording = random_recording(3);
  const auto path = [&](const char* name) { return folder / name; };
  test::write(recording, path("a"));
  test::write(recording, path("b"));
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path("b").c_str(), &connection) == SQLITE_OK);
  CHECK(sqlite3_exec(connection, "PRAGMA page_size = 16384; VACUUM", nullptr, nullptr, nullptr) ==
        SQLITE_OK);
  sqlite3_close(connection);
  CHECK(test::read_file(path("a")) != test::read_file(path("b")));
  const auto same = [&](const Recording& other) {
    test::write(other, path("c"));
    auto a = TraceReader::open(path("b")), c = TraceReader::open(path("c"));
    REQUIRE(a.ok());
    REQUIRE(c.ok());
    const auto answer = storage::same_content(*a, *c);
    REQUIRE(answer.ok());
    return *answer;
  };
  CHECK(same(recording));
  Recording span = recording, sample = recording, op = recording, step = recording, run = recording;
  ++span.lanes.back().end.back();
  CHECK_FALSE(same(span));
  ++sample.memory.back().reserved.back().value;
  CHECK_FALSE(same(sample));
  op.ops.front().label += "?";
  CHECK_FALSE(same(op));
  ++step.rank_steps.compute.front();
  CHECK_FALSE(same(step));
  ++run.info.run.seed;
  CHECK_FALSE(same(run));
  run = recording;
  run.info.run.version += " later";
  CHECK(same(run));
}

}  // namespace
}  // namespace tessera
