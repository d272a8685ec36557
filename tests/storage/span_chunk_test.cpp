// SPDX-License-Identifier: Apache-2.0
#include "storage/span_chunk.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/random.h"

namespace tessera::storage {
namespace {

using test::Random;
using Spans = std::vector<SpanEntry>;

struct PackedSpans {
  ChunkHeader header;
  std::vector<std::uint8_t> data;
};

SpanRun run_of(const Spans& spans) {
  SpanRun run;
  for (const SpanEntry& span : spans) run.push_back(span);
  return run;
}

/// Chunks by rank and number.
class SpanRanks {
 public:
  /// Operations on three streams; one in seven is a collective, which waits for the one before.
  explicit SpanRanks(std::int32_t count) {
    for (std::int32_t id = 0; id < count; ++id) {
      const bool meets = id % 7 == 3;
      const std::vector<std::int32_t> after = {id - 1};
      TraceOp op{};
      op.id = id;
      op.stream = meets ? 2 : id % 2;
      op.communicator = meets ? 0 : -1;
      if (meets) op.after = after;
      ops_.add(op, true);
    }
  }

  KnownOps& ops() { return ops_; }
  const PackedSpans& encode(Rank rank, const Spans& spans, bool complete = true,
                            std::int64_t seq = 4) {
    PackedSpans& packed = packed_[{rank, seq}];
    packed.header = {rank, all_streams, seq};
    encoder_.encode(run_of(spans), complete, packed.header, packed.data);
    return packed;
  }
  Result<SpanColumns> decode(const PackedSpans& packed, int depth = 0) const {
    return decode_shared_spans(
        packed.header, packed.data, depth,
        [this](Rank rank, std::int64_t seq, const ChunkHeader& like,
               int deeper) -> Result<std::shared_ptr<const SpanColumns>> {
          const auto found = packed_.find({rank, seq});
          if (found == packed_.end() || found->second.header.count != like.count) {
            return std::shared_ptr<const SpanColumns>();
          }
          TESSERA_ASSIGN(SpanColumns spans, decode(found->second, deeper));
          return std::make_shared<const SpanColumns>(std::move(spans));
        });
  }
  void check(const PackedSpans& packed, const Spans& spans) const {
    const Result<SpanColumns> back = decode(packed);
    INFO(back.status().message());
    REQUIRE(back.ok());
    REQUIRE(back->plan->size() == spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK((back->op(i) == spans[i].op && back->begin[i] == spans[i].begin &&
             back->ready[i] == spans[i].ready && back->end[i] == spans[i].end));
      CHECK(back->plan->stream(i) == ops_.find(spans[i].op)->stream);
      CHECK((packed.header.t0 <= spans[i].begin && spans[i].end <= packed.header.t1));
    }
  }

 private:
  KnownOps ops_;
  SpanEncoder encoder_{ops_};
  std::map<std::pair<Rank, std::int64_t>, PackedSpans> packed_;
};

/// What a rank does that begins all as soon as it can, collectives together with another.
Spans timeline(SpanRanks& ranks, std::int32_t count, std::uint64_t seed, const Spans* other) {
  Random random(seed);
  Spans spans;
  std::map<std::int32_t, Time> free;
  for (std::int32_t id = 0; id < count; ++id) {
    const KnownOp& op = *ranks.ops().find(id);
    Time begin = free[op.stream];
    for (const std::int32_t after : ranks.ops().after(op)) {
      if (after >= 0) begin = std::max(begin, spans[static_cast<std::size_t>(after)].end);
    }
    SpanEntry span{id, begin, begin, begin + 1000 * (1 + id % 50) + random.below(100)};
    if (op.communicator >= 0) {
      span.ready =
          other != nullptr ? (*other)[static_cast<std::size_t>(id)].ready : begin + 200'000;
      span.end = span.ready + 5000;
    }
    free[op.stream] = span.end;
    spans.push_back(span);
    ranks.ops().time(op, {.op = id,
                          .ranks = std::array{Rank{0}},
                          .begin = std::span(&spans.back().begin, 1),
                          .ready = std::span(&spans.back().ready, 1),
                          .end = std::span(&spans.back().end, 1)});
  }
  return spans;
}

TEST_CASE("spans of all streams come back, whatever they are", "[storage][chunk]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    SpanRanks ranks(400);
    const auto some = [&] {
      Spans spans(static_cast<std::size_t>(1 + random.below(300)));
      for (SpanEntry& span : spans) {
        span.op = static_cast<std::int32_t>(random.below(400));  // in any order, some twice
        for (Time* time : {&span.begin, &span.ready, &span.end}) {
          *time = static_cast<Time>(random.next()) >> random.below(64);
        }
      }
      return spans;
    };
    const Spans first = some();
    Spans second = random.chance(50) ? some() : first;
    for (SpanEntry& span : second) span.end += random.below(100);
    ranks.check(ranks.encode(0, first, random.chance(70)), first);
    ranks.check(ranks.encode(1, second), second);
  }
}

TEST_CASE("spans take the bytes of what does not follow from others", "[storage][chunk]") {
  constexpr std::int32_t count = 4000;
  SpanRanks ranks(count);
  const Spans first = timeline(ranks, count, 1, nullptr),
              second = timeline(ranks, count, 2, &first);
  const PackedSpans& a = ranks.encode(0, first);
  const PackedSpans& b = ranks.encode(1, second);
  CHECK(a.data.size() < count * 3);
  CHECK(b.data.size() < count * 9 / 8);  // eight bits of a random duration
  ranks.check(a, first);
  ranks.check(b, second);
}

TEST_CASE("chunks of later steps build on the plan of the first", "[storage][chunk]") {
  constexpr std::int32_t count = 7000, step = 700;
  SpanRanks ranks(count);
  const Spans first = timeline(ranks, count, 1, nullptr),
              second = timeline(ranks, count, 2, &first);
  for (std::int64_t k = 0; k < count / step; ++k) {
    const auto part = [&](const Spans& all) {
      return Spans(all.begin() + k * step, all.begin() + (k + 1) * step);
    };
    const PackedSpans& a = ranks.encode(0, part(first), true, k);
    const PackedSpans& b = ranks.encode(1, part(second), true, k);
    CHECK(a.data.size() < step * (k == 0 ? 3 : 2));
    CHECK(b.data.size() < step * 5 / 4);
    ranks.check(a, part(first));
    ranks.check(b, part(second));
  }
}

TEST_CASE("the layout of spans is the documented one", "[storage][chunk]") {
  // The example of docs/trace-format.md.
  KnownOps ops;
  TraceOp op{};
  op.id = 5;
  op.stream = 1;
  ops.add(op, true);
  op.id = 7;
  op.communicator = 0;
  ops.add(op, true);
  const Spans spans = {{5, 100, 100, 130}, {7, 130, 140, 150}};
  for (const SpanEntry& span : spans) {
    ops.time(*ops.find(span.op), {.op = span.op,
                                  .ranks = std::array{Rank{0}},
                                  .begin = std::span(&span.begin, 1),
                                  .ready = std::span(&span.ready, 1),
                                  .end = std::span(&span.end, 1)});
  }
  ChunkHeader header{0, all_streams, 0};
  std::vector<std::uint8_t> data;
  SpanEncoder(ops).encode(run_of(spans), true, header, data);
  CHECK(data == std::vector<std::uint8_t>{0x01, 0x00, 0x00, 0x0A, 0x04, 0x01, 0x02, 0x00,
                                          0x00, 0x02, 0x00, 0x3C, 0x14, 0x01, 0x00, 0x00,
                                          0xC8, 0x01, 0x00, 0x00, 0x00, 0x14, 0x01, 0x00});
  CHECK(header.count == 2);
  CHECK(header.t0 == 100);
  CHECK(header.t1 == 150);
}

TEST_CASE("spans that are not complete stand alone, and nobody builds on them",
          "[storage][chunk]") {
  SpanRanks ranks(500);
  const Spans first = timeline(ranks, 500, 1, nullptr), second = timeline(ranks, 500, 2, &first);
  const std::size_t alone = ranks.encode(0, first, false).data.size();
  CHECK(ranks.encode(1, second).data.size() > alone * 2 / 3);
  CHECK(ranks.encode(0, first, false).data.size() == alone);
}

TEST_CASE("damaged spans are named, and reading them is harmless", "[storage][chunk]") {
  SpanRanks ranks(300);
  const Spans first = timeline(ranks, 300, 1, nullptr), second = timeline(ranks, 300, 2, &first);
  const PackedSpans model = ranks.encode(0, first), sharing = ranks.encode(1, second);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    PackedSpans packed = random.chance(70) ? model : sharing;
    for (std::int64_t i = 0; i <= random.below(4); ++i) {
      const auto at = static_cast<std::size_t>(random.below(std::ssize(packed.data)));
      packed.data[at] = static_cast<std::uint8_t>(random.next());
    }
    if (random.chance(30)) packed.header.count += random.below(5000) - 2500;
    const Result<SpanColumns> spans = ranks.decode(packed);
    if (spans.ok()) {
      CHECK(spans->begin.size() <= chunk_count_max);
      continue;
    }
    ++refused;
    CHECK(spans.status().code() == Code::corrupt);
    CHECK(spans.status().message().find("span chunk (rank ") != std::string::npos);
  }
  CHECK(refused > 300);
}

TEST_CASE("a negative id of an operation is refused", "[storage][spans]") {
  KnownOps ops;
  TraceOp op{};
  op.id = -1;
  ops.add(op, true);
  SpanEncoder encoder(ops);
  PackedSpans packed;
  packed.header = {0, all_streams, 0};
  encoder.encode(run_of({{-1, 0, 0, 5}}), true, packed.header, packed.data);
  const auto no_model = [](auto...) { return Result(std::shared_ptr<const SpanColumns>()); };
  const auto spans = decode_shared_spans(packed.header, packed.data, 0, no_model);
  CHECK(spans.status().code() == Code::corrupt);
  CHECK(spans.status().message().find("id is impossible") != std::string::npos);
}

}  // namespace
}  // namespace tessera::storage
