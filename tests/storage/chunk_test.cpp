// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/random.h"

namespace tessera::storage {
namespace {

using test::Random;

constexpr Time first_time = std::numeric_limits<Time>::min();
constexpr Time last_time = std::numeric_limits<Time>::max();

std::vector<SpanEntry> random_spans(Random& random, std::int64_t count_max) {
  std::vector<SpanEntry> spans(static_cast<std::size_t>(1 + random.below(count_max)));
  for (SpanEntry& span : spans) {
    span.op = static_cast<std::int32_t>(random.next() >> 33);  // ids are not negative
    // Shifted down to a width of 0 to 63 bits: nothing says that times are sensible.
    for (Time* time : {&span.begin, &span.ready, &span.end}) {
      *time = static_cast<Time>(random.next()) >> random.below(64);
    }
    span.begin = std::min(span.begin, last_time - 1);
    span.end = std::max(span.begin, span.end);
  }
  return spans;
}

TEST_CASE("a chunk of spans comes back, with its earliest begin and latest end",
          "[storage][chunk]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    const std::vector<SpanEntry> spans = random_spans(random, 300);
    ChunkHeader header{1, 2, 3};
    std::vector<std::uint8_t> data;
    encode_spans(spans, header, data);
    Lane lane;
    REQUIRE(decode_spans(header, data, first_time, last_time, lane).ok());
    REQUIRE(lane.op.size() == spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK((lane.op[i] == spans[i].op && lane.begin[i] == spans[i].begin &&
             lane.ready[i] == spans[i].ready && lane.end[i] == spans[i].end));
      CHECK((header.t0 <= spans[i].begin && spans[i].end <= header.t1));
    }
  }
}

TEST_CASE("the layout of a chunk is the documented one", "[storage][chunk]") {
  // The example of docs/trace-format.md.
  const std::vector<SpanEntry> spans = {{5, 100, 100, 130}, {7, 130, 140, 150}};
  ChunkHeader header{0, 1, 0};
  std::vector<std::uint8_t> data;
  encode_spans(spans, header, data);
  CHECK(data == std::vector<std::uint8_t>{0x00, 0x0A, 0x04, 0x00, 0xC8, 0x01, 0x00, 0x00, 0x00,
                                          0x14, 0x00, 0x3C, 0x28});
  CHECK(header.count == 2);
  CHECK(header.t0 == 100);
  CHECK(header.t1 == 150);
}

TEST_CASE("spans of a training step take few bytes", "[storage][chunk]") {
  std::vector<SpanEntry> spans;
  Random random(5);
  Time now = 0;
  for (std::int32_t op = 0; op < 4096; ++op) {
    const Time begin = now + random.below(2) * 5000, end = begin + 100'000 + random.below(400'000);
    spans.push_back({op * 3, begin, begin, end});
    now = end;
  }
  ChunkHeader header;
  std::vector<std::uint8_t> data;
  encode_spans(spans, header, data);
  CHECK(data.size() < 4096 * 11 / 2);
}

/// Flips, inserts or removes some bytes.
void damage(Random& random, std::vector<std::uint8_t>& data) {
  for (std::int64_t i = 0; i <= random.below(4); ++i) {
    const auto at =
        static_cast<std::ptrdiff_t>(random.below(static_cast<std::int64_t>(data.size()) + 1));
    const auto byte = static_cast<std::uint8_t>(random.next());
    if (at == static_cast<std::ptrdiff_t>(data.size()) || random.chance(20)) {
      data.insert(data.begin() + at, byte);
    } else if (random.chance(20)) {
      data.erase(data.begin() + at);
    } else {
      data[static_cast<std::size_t>(at)] = byte;
    }
  }
}

TEST_CASE("a damaged chunk fails its checksum, and decoding it anyway is harmless",
          "[storage][chunk]") {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    ChunkHeader header{4, 2, 6};
    std::vector<std::uint8_t> data;
    encode_spans(random_spans(random, 40), header, data);
    const std::vector<std::uint8_t> original = data;
    damage(random, data);
    if (data == original) continue;
    CHECK(chunk_checksum(header, data) != chunk_checksum(header, original));
    if (random.chance(30)) header.count += random.below(5000) - 2500;
    Lane lane;
    const Status status = decode_spans(header, data, first_time, last_time, lane);
    CHECK(lane.op.size() <= chunk_count_max);
    if (status.ok()) continue;
    ++refused;
    CHECK((status.code() == Code::corrupt || status.code() == Code::not_supported));
    CHECK(status.message().find(header.describe()) != std::string::npos);
  }
  CHECK(refused > 500);
}

TEST_CASE("an impossible count is refused before anything is read", "[storage][chunk]") {
  ChunkHeader header{1, 2, 3};
  std::vector<std::uint8_t> data;
  encode_spans(std::vector<SpanEntry>(4, SpanEntry{1, 2, 3, 4}), header, data);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{4097},
                                   std::numeric_limits<std::int64_t>::max()}) {
    header.count = count;
    Lane lane;
    CHECK(decode_spans(header, data, first_time, last_time, lane).code() == Code::corrupt);
  }
}

TEST_CASE("a negative op of an old chunk is refused", "[storage][chunk]") {
  ChunkHeader header{1, 2, 3};
  std::vector<std::uint8_t> data;
  encode_spans(std::vector<SpanEntry>{{-1, 2, 3, 4}}, header, data);
  Lane lane;
  CHECK(decode_spans(header, data, first_time, last_time, lane).code() == Code::corrupt);
}

}  // namespace
}  // namespace tessera::storage
