// SPDX-License-Identifier: Apache-2.0
#include "storage/span_lanes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <tuple>

#include "storage/column_kernels.h"
#include "storage/encoding.h"
#include "tests/random.h"

namespace tessera::storage {
namespace {

using test::Random;
using Times = std::vector<Time>;

/// What a lane was told: the chunk's number, and its spans.
using Told = std::tuple<Rank, std::int64_t, std::vector<std::int32_t>, Times>;

TEST_CASE("spans of all ranks arrive at each rank as if they came one by one", "[storage][chunk]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    const auto ranks = static_cast<Rank>(1 + random.below(9));
    const auto count_max = static_cast<std::size_t>(20 + random.below(100));
    std::vector<Told> told, expected;
    RecentEdges edges(ranks, static_cast<std::size_t>(ranks));
    SpanLanes lanes(ranks, count_max, &edges,
                    [&](const ChunkHeader& header, const SpanRun& run, GivenChunk) {
                      told.emplace_back(header.rank, header.seq,
                                        std::vector(run.ops().begin(), run.ops().end()),
                                        Times(run.end().begin(), run.end().end()));
                    });
    LaneBuffers<SpanEntry> plain(
        ranks, count_max, [&](const ChunkHeader& header, const auto& run, GivenChunk) {
          Told& all =
              expected.emplace_back(header.rank, header.seq, std::vector<std::int32_t>(), Times());
          for (const SpanEntry& span : run) {
            std::get<2>(all).push_back(span.op);
            std::get<3>(all).push_back(span.end);
          }
        });
    std::vector<std::int32_t>& of_rank = plain.lanes_of(all_streams);
    std::vector<Rank> some;
    for (std::int32_t op = 0; op < 400; ++op) {
      if (op == 0 || random.chance(5)) {
        some.clear();
        for (Rank r = 0; r < ranks; ++r) {
          if (random.chance(70)) some.push_back(r);
        }
      }
      const Times begin(some.size(), op), end(some.size(), random.below(1000));
      lanes.add({op, some, begin, begin, end});
      for (std::size_t i = 0; i < some.size(); ++i) {
        plain.add(of_rank, all_streams, some[i], {op, begin[i], begin[i], end[i]});
      }
      if (random.chance(2)) {
        lanes.cut_all(10);
        plain.cut_all(10);
      }
      if (random.chance(2)) {
        lanes.show_all();
        plain.show_all();
        for (std::size_t i = 0; i < some.size(); ++i) {
          CHECK(edges.time(some[i], Edge{op} * 2 + 1) == end[i]);
        }
      }
    }
    lanes.flush_all();
    plain.flush_all();
    CHECK(told == expected);
  }
}

TEST_CASE("what vectors find out about columns is what numbers say", "[storage][encoding]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    std::vector<std::int64_t> column(static_cast<std::size_t>(1 + random.below(300)));
    const std::int64_t width = random.below(64);
    for (std::int64_t& value : column) value = static_cast<std::int64_t>(random.next()) >> width;
    CHECK(least_of(column) == *std::min_element(column.begin(), column.end()));
    CHECK(most_of(column) == *std::max_element(column.begin(), column.end()));
    BlockFacts facts[3];
    find_facts(column, facts);
    for (std::size_t at = 0; at < column.size(); at += block_size) {
      const auto block = std::span(column).subspan(at, std::min(block_size, column.size() - at));
      std::uint64_t all = 0;
      std::size_t bytes = 0;
      for (const std::int64_t value : block) {
        all |= zigzag(value);
        std::uint64_t left = zigzag(value);
        for (++bytes; left >= 0x80; left >>= 7) ++bytes;
      }
      CHECK(facts[at / block_size].all == all);
      CHECK(facts[at / block_size].others ==
            std::ssize(block) - std::count(block.begin(), block.end(), 0));
      CHECK(varints_size(block, all) == bytes);
    }
    const std::int64_t wanted = column[static_cast<std::size_t>(random.below(std::ssize(column)))];
    const auto last = std::find(column.rbegin(), column.rend(), wanted);
    CHECK(find_last(column, wanted) == static_cast<std::size_t>(column.rend() - last) - 1);
    const auto distance = static_cast<std::size_t>(random.below(std::ssize(column)));
    std::size_t repeated = 0;
    for (std::size_t i = distance; i < column.size(); ++i) {
      repeated += column[i] == column[i - distance] ? 1 : 0;
    }
    CHECK(count_repeated(column, distance) == repeated);
    std::erase(column, wanted);
    CHECK(find_last(column, wanted) == column.size());
  }
}

}  // namespace
}  // namespace tessera::storage
