// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_history.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/random.h"

namespace tessera {
namespace {

constexpr Rank ranks = 6;
constexpr int streams = 3;

Access bytes(std::int64_t begin, std::int64_t length, bool write) {
  return {BufferId{0}, begin, length, 0, begin + length, write};
}

// One rank's accesses, each looked at every time: what the shared history has to be equal to.
struct OneRank {
  std::vector<AccessRecord> records;

  bool legal(const Access& access, StreamId stream, const StreamOrder& order) const {
    std::vector<bool> written(64, false);
    for (const AccessRecord& r : records) {
      const bool ordered =
          r.position.stream == stream.value || order.before_stream(r.position, stream);
      if ((access.write || r.access.write) && !ordered && overlap(access, r.access)) return false;
      for (std::int64_t k = 0; k < r.access.length && r.access.write; ++k) {
        written[static_cast<std::size_t>(r.access.begin + k)] = true;
      }
    }
    for (std::int64_t k = 0; k < access.length && !access.write; ++k) {
      if (!written[static_cast<std::size_t>(access.begin + k)]) return false;
    }
    return true;
  }
  void record(const Access& access, Position position, bool collective) {
    if (access.write) {
      std::erase_if(records, [&](const AccessRecord& r) { return contains(access, r.access); });
    } else {
      for (AccessRecord& r : records) r.unread = r.unread && !overlap(r.access, access);
    }
    records.push_back({access, position, {}, access.write && collective, {}});
  }
  bool over(EventId event, const StreamOrder& order) const {
    return std::all_of(records.begin(), records.end(), [&](const AccessRecord& r) {
      return order.before_event(r.position, event);
    });
  }
  bool unread() const {
    return std::any_of(records.begin(), records.end(),
                       [](const AccessRecord& r) { return r.unread; });
  }
};

RankSet some_of(const RankSet& holders, test::Random& random) {
  if (random.chance(40)) return holders;
  std::vector<Rank> out;
  holders.for_each([&](Rank r) {
    if (random.chance(40)) out.push_back(r);
  });
  return out.empty() ? holders : RankSet::of(std::move(out));
}

TEST_CASE("a history of all ranks says what a history of each would", "[access_history]") {
  const std::uint64_t seed = GENERATE(range(1, 120));
  INFO("seed=" << seed);
  test::Random random(seed);
  StreamOrder order;
  for (int s = 0; s < streams; ++s) order.add_stream();
  AccessHistory history;
  std::vector<OneRank> each(ranks);
  RankSet holders = RankSet::all(ranks);
  std::int32_t next = 0;
  int refused = 0;
  // More records than are searched one by one, so that both ways are taken.
  for (int k = 0; k < 250; ++k) {
    const StreamId stream{static_cast<std::int32_t>(random.below(streams))};
    if (random.chance(30)) {
      order.wait_stream(stream, StreamId{static_cast<std::int32_t>(random.below(streams))});
    }
    const RankSet who = some_of(holders, random);
    const Access access =
        bytes(random.below(60), 1 + random.below(random.chance(20) ? 4 : 2), random.chance(60));
    const bool collective = random.chance(20);
    bool legal = true;
    who.for_each([&](Rank r) {
      legal = legal && each[static_cast<std::size_t>(r)].legal(access, stream, order);
    });
    const Acting acting{who, holders};
    REQUIRE(history.check(access, stream, 1, order, acting).empty() == legal);
    if (!legal) {
      ++refused;
      continue;
    }
    const Position position = order.advance(stream, EventId{next});
    const OpKind kind = collective ? OpKind::all_reduce : OpKind::compute;
    history.record(access, position, {kind, {}, EventId{next}}, acting);
    ++next;
    who.for_each(
        [&](Rank r) { each[static_cast<std::size_t>(r)].record(access, position, collective); });
    const RankSet asked = some_of(holders, random);
    bool over = true;
    bool unread = false;
    const EventId event{static_cast<std::int32_t>(random.below(next))};
    asked.for_each([&](Rank r) {
      over = over && each[static_cast<std::size_t>(r)].over(event, order);
      unread = unread || each[static_cast<std::size_t>(r)].unread();
    });
    REQUIRE((history.not_before(event, order, asked) == nullptr) == over);
    REQUIRE((history.unread_collective(asked) != nullptr) == unread);
    if (random.chance(1) && holders.count() > 2) {
      const RankSet gone = RankSet::single(holders.first());
      holders = holders.minus(gone);
      history.forget(gone);
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("what a search looks at does not grow with what a buffer is accessed by",
          "[access_history]") {
  constexpr std::int64_t parameters = 5000;
  AccessRecords records;
  for (std::int64_t k = 0; k < parameters; ++k) {
    records.add({bytes(100 * k, 100, true), {0, static_cast<std::uint32_t>(k)}, {}, false, {}});
  }
  int found = 0;
  for (std::int64_t k = 0; k < parameters; ++k) {
    const Access read = bytes(100 * k + 10, 50, false);
    records.any_near(read, [&](const AccessRecord& r) {
      found += overlap(r.access, read) ? 1 : 0;
      return false;
    });
  }
  CHECK(found == parameters);
  CHECK(records.visits() <= 4 * parameters);
}

}  // namespace
}  // namespace tessera
