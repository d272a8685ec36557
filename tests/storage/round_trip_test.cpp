// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace tessera
