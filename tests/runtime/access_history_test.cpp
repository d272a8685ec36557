// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access_history.h"

#include <algorithm>
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

constexpr int members = 4;

// The bytes that `a` touches at one index, one by one.
std::vector<bool> touched(const Access& a, Index index) {
  std::vector<bool> out(128, false);
  for (Index k = 0; k < a.blocks(); ++k) {
    const Index at = a.pitch > 0 ? k : index;
    for (std::int64_t b = a.begin_at(at); b < a.end_at(at); ++b) {
      out[static_cast<std::size_t>(b)] = true;
    }
  }
  return out;
}

// A range, a piece of every rank, or blocks with a pitch; often of one period.
Access any_access(test::Random& random) {
  const std::int64_t begin = random.below(40);
  const std::int64_t length = 1 + random.below(12);
  const std::int64_t apart = random.chance(70) ? 16 : 1 + random.below(20);
  Access out{BufferId{0}, begin, length, 0, begin + length, random.chance(60)};
  if (random.chance(30)) return out;
  out.end = std::min<std::int64_t>(120, begin + (members - 1) * apart + length - random.below(3));
  if (random.chance(50) || length >= apart) {
    out.step = apart;
  } else {
    out.pitch = apart;
  }
  return out;
}

TEST_CASE("accesses overlap and contain one another as their bytes do", "[access_history]") {
  test::Random random(7);
  int apart = 0;
  int inside = 0;
  for (int k = 0; k < 20000; ++k) {
    const Access a = any_access(random);
    const Access b = any_access(random);
    INFO(a.begin << " " << a.length << " " << a.step << " " << a.pitch << " " << a.end);
    INFO(b.begin << " " << b.length << " " << b.step << " " << b.pitch << " " << b.end);
    const bool said_apart = !overlap(a, b);
    const bool said_inside = contains(a, b);
    for (Index index = 0; index < members; ++index) {
      const std::vector<bool> of_a = touched(a, index);
      const std::vector<bool> of_b = touched(b, index);
      for (std::size_t byte = 0; byte < of_a.size(); ++byte) {
        if (said_apart && of_a[byte] && of_b[byte]) FAIL("they share a byte");
        if (said_inside && of_b[byte] && !of_a[byte]) FAIL("a byte lies outside");
      }
    }
    apart += said_apart && a.period() + b.period() > 0 ? 1 : 0;
    inside += said_inside && a.pitch > 0 ? 1 : 0;
  }
  CHECK(apart > 500);
  CHECK(inside > 50);
}

TEST_CASE("an index finds every record that overlaps", "[access_history]") {
  test::Random random(11);
  AccessRecords records;
  std::vector<Access> all;
  for (int k = 0; k < 400; ++k) {
    const Access near = any_access(random);
    std::size_t found = 0;
    std::size_t visits = 0;
    records.any_near(near, [&](const AccessRecord& r) {
      found += overlap(r.access, near) ? 1U : 0U;
      ++visits;
      return false;
    });
    const auto expected =
        std::count_if(all.begin(), all.end(), [&](const Access& a) { return overlap(a, near); });
    REQUIRE(static_cast<std::ptrdiff_t>(found) == expected);
    REQUIRE(visits <= all.size());
    records.add({near, {0, 1}, {}, false, {}});
    all.push_back(near);
  }
}

// As the values of a flat buffer that are gathered in pieces after a step.
TEST_CASE("a search is short where a buffer is written in pieces of every rank's part",
          "[access_history]") {
  constexpr std::int64_t pieces = 2000;
  constexpr std::int64_t part = 100 * pieces;
  constexpr std::int64_t end = 8 * part;
  AccessRecords records;
  for (std::int64_t k = 0; k < pieces; ++k) {
    records.add({{BufferId{0}, 100 * k, 100, part, end, false}, {}, {}, false, {}});
    records.add({{BufferId{0}, 100 * k, 100, 0, end - part + 100 * (k + 1), true, part},
                 {},
                 {},
                 false,
                 {}});
  }
  int found = 0;
  for (std::int64_t begin = 0; begin < end; begin += 100) {
    const Access read = bytes(begin, 100, false);
    records.any_near(read, [&](const AccessRecord& r) {
      found += r.access.write && overlap(r.access, read) ? 1 : 0;
      return false;
    });
  }
  CHECK(found == 8 * pieces);
  CHECK(records.visits() <= 10 * 8 * pieces);
}

// As the parameters that are read one by one while a flat buffer is gathered in pieces.
TEST_CASE("a search for pieces of every rank's part is short among ranges", "[access_history]") {
  constexpr std::int64_t pieces = 2000;
  constexpr std::int64_t part = 100 * pieces;
  constexpr std::int64_t end = 8 * part;
  AccessRecords records;
  for (std::int64_t begin = 0; begin < end; begin += 100) {
    records.add({bytes(begin, 100, false), {}, {}, false, {}});
  }
  int found = 0;
  for (std::int64_t k = 0; k < pieces; ++k) {
    const Access written{BufferId{0}, 100 * k, 100, part, end, true};
    records.any_near(written, [&](const AccessRecord& r) {
      found += overlap(r.access, written) ? 1 : 0;
      return false;
    });
  }
  CHECK(found == 8 * pieces);
  CHECK(records.visits() <= 4 * 8 * pieces);
}

}  // namespace
}  // namespace tessera
