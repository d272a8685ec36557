// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/cached_memory.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera::sim {
namespace {

constexpr StreamId own_stream{0};
constexpr StreamId other_stream{1};
constexpr Rank ranks = 6;

struct Held {
  BufferId id;
  RankSet where;
};

// Random buffers of all ranks or of one, for the same calls by two accounts of which one is asked
// every time what is reserved.
void compare(Bytes capacity, bool expandable, std::uint32_t seed) {
  INFO("seed " << seed);
  const CachingOptions options{capacity, expandable};
  CachedMemory asked(RankSet::all(ranks), options), waiting(RankSet::all(ranks), options);
  test::Random random(seed);
  std::vector<Held> held;
  bool retried = false;
  for (std::int32_t k = 0; k < 600; ++k) {
    const Time now = 10 * k;
    const auto each = [&](const RankSet& where, auto&& call) {
      for (Rank r = 0; r < ranks; ++r) {
        if (where.contains(r)) call(RankSet::single(r));
      }
    };
    if (held.size() > 12 || (!held.empty() && random.below(2) == 0)) {
      const std::size_t at = static_cast<std::size_t>(random.below(std::ssize(held)));
      const Time done = now + static_cast<Time>(random.below(50));
      const bool elsewhere = random.below(2) == 0;
      const auto use = [&](StreamId, Rank) -> std::optional<CachedMemory::Use> {
        return elsewhere ? std::optional(CachedMemory::Use{other_stream, done}) : std::nullopt;
      };
      each(held[at].where, [&](const RankSet& one) {
        asked.release(held[at].id, one, use);
        waiting.release(held[at].id, one, use);
      });
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const Rank owner = static_cast<Rank>(random.below(ranks));
    const RankSet where = random.below(2) == 0 ? RankSet::all(ranks) : RankSet::single(owner);
    const Bytes bytes{1 + static_cast<std::int64_t>(random.below(30 << 20))};
    const StreamId stream = random.below(4) == 0 ? other_stream : own_stream;
    each(where, [&](const RankSet& one) {
      const auto now_told = asked.allocate(BufferId{k}, bytes, stream, one, now);
      const auto told = waiting.allocate(BufferId{k}, bytes, stream, one, now, /*tells=*/false);
      CHECK(told.retried == now_told.retried);
      CHECK(told.fits == now_told.fits);
      retried |= told.retried;
    });
    held.push_back({BufferId{k}, where});
  }
  waiting.settle();
  CHECK(waiting.highest() == asked.highest());
  for (Rank r = 0; r < ranks; ++r) {
    CHECK(waiting.reserved(r) == asked.reserved(r));
    CHECK(waiting.peak(r) == asked.peak(r));
  }
  CHECK(retried == (capacity > Bytes{}));
}

}  // namespace

TEST_CASE("calls that wait give the same as those that are done at once", "[caching-allocator]") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    for (const bool expandable : {false, true}) {
      compare(Bytes{}, expandable, seed);
      compare(Bytes{150 << 20}, expandable, seed);
    }
  }
}

}  // namespace tessera::sim
