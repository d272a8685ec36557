// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "storage/sample_decoder.h"
#include "tests/random.h"
#include "tests/storage/recording.h"

namespace tessera::storage {
namespace {

using test::Random;
using Samples = std::vector<MemorySample>;

/// Ranks that do the same with their memory, where operations begin and end, at times of their own.
class Ranks {
 public:
  explicit Ranks(std::int32_t count) : edges_(count, 2), encoder_(edges_) {}

  /// `late`: samples that lie elsewhere; `other`: this rank does something else with its memory.
  Samples samples_of(Rank rank, std::uint64_t seed, int late = 0, bool other = false) {
    Random shared(1), own(seed);
    Samples samples;
    Time now = 0;
    for (std::int32_t op = 0; op < 200; ++op) {
      const SpanEntry span{op * 2, now, now, now + 1000 + own.below(500)};
      edges_.add(rank, span);
      times_[{rank, span.op * 2}] = span.begin;
      times_[{rank, span.op * 2 + 1}] = span.end;
      for (const Time time : {span.begin, span.end}) {
        const std::int64_t sign = time == span.begin ? 1 : -1;
        const std::int64_t bytes = shared.below(1 << 20);
        samples.push_back({rank, time + (own.chance(late) ? own.below(9) : 0),
                           static_cast<std::int32_t>(shared.below(50)) + (other ? 1 : 0),
                           MemoryClass::temporary, Bytes{sign * bytes}, Bytes{}, Bytes{1 << 30}});
      }
      now = span.end + (own.chance(50) ? 10 : 0);
    }
    std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
      return a.time != b.time ? a.time < b.time : a.delta < Bytes{} && b.delta > Bytes{};
    });
    Bytes allocated{};
    for (MemorySample& sample : samples) sample.allocated = allocated += sample.delta;
    return samples;
  }

  struct Packed {
    ChunkHeader header;
    std::vector<std::uint8_t> data;
  };
  const Packed& encode(Rank rank, const Samples& samples, bool complete = true) {
    Packed& packed = packed_[rank];
    packed.header = {rank, memory_stream, 7};
    encoder_.encode(samples, complete, packed.header, packed.data);
    return packed;
  }
  Status decode(const Packed& packed, MemorySeries& series) const {
    SampleContext context;
    context.time_of = [&](Edge edge) -> std::optional<Time> {
      const auto found = times_.find({packed.header.rank, edge});
      return found == times_.end() ? std::nullopt : std::optional(found->second);
    };
    context.data_of = [&](Rank rank, const ChunkHeader&) -> Result<std::vector<std::uint8_t>> {
      const auto found = packed_.find(rank);
      return found == packed_.end() ? std::vector<std::uint8_t>() : found->second.data;
    };
    return decode_shared_samples(packed.header, packed.data, context, series);
  }
  void check(const Packed& packed, const Samples& samples) const {
    MemorySeries series;
    const Status status = decode(packed, series);
    INFO(status.message());
    REQUIRE(status.ok());
    REQUIRE(series.time.size() == samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK((series.time[i] == samples[i].time && series.buffer[i] == samples[i].buffer &&
             series.memory_class[i] == samples[i].memory_class &&
             series.delta[i] == samples[i].delta && series.allocated[i] == samples[i].allocated &&
             series.reserved[i] == samples[i].reserved));
    }
  }

 private:
  RecentEdges edges_;
  SampleEncoder encoder_;
  std::map<std::pair<Rank, Edge>, Time> times_;
  std::map<Rank, Packed> packed_;
};

TEST_CASE("samples come back, whatever they are", "[storage][chunk]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    Samples samples(static_cast<std::size_t>(1 + random.below(300)));
    for (MemorySample& sample : samples) {
      sample.time = static_cast<Time>(random.next()) >> random.below(64);
      sample.buffer = static_cast<std::int32_t>(random.next());
      sample.memory_class = static_cast<MemoryClass>(random.below(memory_class_count));
      for (Bytes* bytes : {&sample.delta, &sample.allocated, &sample.reserved}) {
        bytes->value = static_cast<std::int64_t>(random.next()) >> random.below(64);
      }
    }
    Ranks ranks(2);
    static_cast<void>(ranks.samples_of(0, seed));
    ranks.check(ranks.encode(0, samples, random.chance(50)), samples);
    ranks.check(ranks.encode(1, samples), samples);  // of a rank without spans
  }
}

TEST_CASE("what ranks have in common is kept once", "[storage][chunk]") {
  Ranks ranks(5);
  const Samples first = ranks.samples_of(0, 10), second = ranks.samples_of(1, 11),
                late = ranks.samples_of(2, 12, 5), other = ranks.samples_of(3, 13, 0, true),
                elsewhere = ranks.samples_of(4, 14, 60);
  const auto& a = ranks.encode(0, first);
  const auto& b = ranks.encode(1, second);
  const auto& c = ranks.encode(2, late);
  const auto& d = ranks.encode(3, other);
  const auto& e = ranks.encode(4, elsewhere);
  CHECK(a.data.size() > 1000);
  CHECK(b.data.size() < 16);
  CHECK(c.data.size() < 150);                // a byte or two for each that lies elsewhere
  CHECK(d.data.size() < a.data.size() / 2);  // other buffers
  CHECK(e.data.size() < a.data.size() / 2);  // times of its own, the rest is shared
  ranks.check(a, first);
  ranks.check(b, second);
  ranks.check(c, late);
  ranks.check(d, other);
  ranks.check(e, elsewhere);
}

TEST_CASE("a chunk that is not complete stands alone, and nobody builds on it",
          "[storage][chunk]") {
  Ranks ranks(2);
  const Samples first = ranks.samples_of(0, 10), second = ranks.samples_of(1, 11);
  const std::size_t alone = ranks.encode(0, first, false).data.size();
  CHECK(ranks.encode(1, second).data.size() > alone / 2);
  CHECK(ranks.encode(0, first, false).data.size() == alone);
}

TEST_CASE("damaged samples are named, and reading them is harmless", "[storage][chunk]") {
  Ranks ranks(2);
  const Samples first = ranks.samples_of(0, 10), second = ranks.samples_of(1, 11, 5);
  const Ranks::Packed model = ranks.encode(0, first), sharing = ranks.encode(1, second);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    Ranks::Packed packed = random.chance(50) ? model : sharing;
    for (std::int64_t i = 0; i <= random.below(4); ++i) {
      const auto at = static_cast<std::size_t>(random.below(std::ssize(packed.data)));
      packed.data[at] = static_cast<std::uint8_t>(random.next());
    }
    if (random.chance(30)) packed.header.count += random.below(5000) - 2500;
    MemorySeries series;
    const Status status = ranks.decode(packed, series);
    CHECK(series.time.size() <= chunk_count_max);
    if (status.ok()) continue;
    ++refused;
    CHECK((status.code() == Code::corrupt || status.code() == Code::not_supported));
    CHECK(status.message().find("memory chunk (rank ") != std::string::npos);
  }
  CHECK(refused > 200);
}

}  // namespace
}  // namespace tessera::storage
