// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/allocator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "tests/random.h"

namespace tessera {
namespace {

constexpr StreamId compute{0};
constexpr StreamId gather{1};

struct Streams {
  StreamOrder order;
  int events = 0;

  Streams() {
    order.add_stream();
    order.add_stream();
  }
  EventId op(StreamId stream) {
    const EventId event{events++};
    order.advance(stream, event);
    return event;
  }
};

TEST_CASE("a released piece is reused at once by the stream it was released on", "[allocator]") {
  Streams s;
  EventOrderedAllocator allocator;
  const auto first = allocator.allocate(1000_bytes, compute, s.order);
  allocator.release(first.piece, s.order.position_of(s.op(compute)));
  CHECK(allocator.allocate(1000_bytes, compute, s.order).offset == first.offset);
}

TEST_CASE("another stream gets a released piece only once it waits for the release",
          "[allocator]") {
  Streams s;
  EventOrderedAllocator allocator;
  const auto first = allocator.allocate(1000_bytes, compute, s.order);
  const EventId used = s.op(compute);
  allocator.release(first.piece, s.order.position_of(used));
  const Bytes elsewhere = allocator.allocate(1000_bytes, gather, s.order).offset;
  CHECK(elsewhere != first.offset);
  s.order.wait(gather, used);
  CHECK(allocator.allocate(1000_bytes, gather, s.order).offset == first.offset);
}

TEST_CASE("neighbouring free pieces serve one larger request", "[allocator]") {
  Streams s;
  EventOrderedAllocator allocator;
  const auto a = allocator.allocate(512_bytes, compute, s.order);
  const auto b = allocator.allocate(512_bytes, compute, s.order);
  const Bytes c = allocator.allocate(512_bytes, compute, s.order).offset;
  allocator.release(a.piece, s.order.position_of(s.op(compute)));
  allocator.release(b.piece, s.order.position_of(s.op(compute)));
  CHECK(allocator.allocate(1024_bytes, compute, s.order).offset == a.offset);
  CHECK(c == Bytes{1024});
}

TEST_CASE("memory is taken in pages and counted exactly", "[allocator]") {
  Streams s;
  EventOrderedAllocator allocator;
  allocator.allocate(100_bytes, compute, s.order);
  CHECK(allocator.allocated() == 100_bytes);
  CHECK(allocator.reserved() == allocator_page);
  allocator.allocate(allocator_page, compute, s.order);
  CHECK(allocator.reserved() == allocator_page * 2);
}

// A piece is safe for a stream when that stream's clock covers the releases of everybody who had
// any of its bytes before.
TEST_CASE("no two buffers that are not ordered ever share bytes", "[allocator]") {
  const std::uint64_t seed = GENERATE(range(1, 60));
  INFO("seed=" << seed);
  test::Random random(seed);
  StreamOrder order;
  for (int s = 0; s < 3; ++s) order.add_stream();
  struct Past {
    std::int64_t begin, end;
    Position released;
  };
  struct Live {
    std::int64_t begin, end;
    StreamId stream;
    EventOrderedAllocator::PieceId piece;
  };
  EventOrderedAllocator allocator;
  std::vector<Past> past;
  std::vector<Live> live;
  int events = 0;
  for (int k = 0; k < 400; ++k) {
    const StreamId stream{static_cast<std::int32_t>(random.below(3))};
    if (random.chance(45) || live.empty()) {
      const Bytes bytes{random.below(200'000)};
      const auto placed = allocator.allocate(bytes, stream, order);
      const Live added{placed.offset.value,
                       placed.offset.value + std::max<std::int64_t>(bytes.value, 1), stream,
                       placed.piece};
      for (const Live& other : live) CHECK((other.end <= added.begin || added.end <= other.begin));
      for (const Past& other : past) {
        const bool apart = other.end <= added.begin || added.end <= other.begin;
        CHECK((apart || order.before_stream(other.released, stream)));
      }
      live.push_back(added);
    } else if (random.chance(60)) {
      const auto victim =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      const EventId event{events++};
      const Position released = order.advance(live[victim].stream, event);
      allocator.release(live[victim].piece, released);
      past.push_back({live[victim].begin, live[victim].end, released});
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    } else if (events > 0) {
      order.wait(stream, EventId{static_cast<std::int32_t>(random.below(events))});
      if (random.chance(30)) order.prune();
    }
    CHECK(allocator.consistent());
  }
}

// The definition, by looking at all bytes that there are in units of the alignment.
class ByUnits {
 public:
  std::int64_t allocate(std::int64_t bytes, StreamId stream, const StreamOrder& order) {
    const auto wanted = static_cast<std::size_t>((std::max<std::int64_t>(bytes, 1) + 255) / 256);
    std::size_t best = 0, best_units = ~std::size_t{0}, at_end = 0;
    for (std::size_t k = 0; k < units_.size();) {
      std::size_t end = k;
      while (end < units_.size() && usable(units_[end], stream, order)) ++end;
      if (end - k >= wanted && end - k < best_units) best = k, best_units = end - k;
      if (end == units_.size()) at_end = end - k;
      k = std::max(end, k + 1);
    }
    if (best_units == ~std::size_t{0}) {
      best = units_.size() - at_end;
      const std::size_t page = static_cast<std::size_t>(allocator_page.value) / 256;
      const std::size_t more = (wanted - at_end + page - 1) / page * page;
      units_.resize(units_.size() + more);
    }
    for (std::size_t k = best; k < best + wanted; ++k) units_[k].used = true;
    return static_cast<std::int64_t>(best) * 256;
  }
  void release(std::int64_t offset, std::int64_t bytes, Position after) {
    const auto begin = static_cast<std::size_t>(offset / 256);
    const auto n = static_cast<std::size_t>((std::max<std::int64_t>(bytes, 1) + 255) / 256);
    for (std::size_t k = begin; k < begin + n; ++k) {
      units_[k].used = false;
      units_[k].after.push_back(after);
    }
  }

 private:
  struct Unit {
    bool used = false;
    std::vector<Position> after;  // all releases so far
  };
  static bool usable(const Unit& unit, StreamId stream, const StreamOrder& order) {
    return !unit.used && std::all_of(unit.after.begin(), unit.after.end(),
                                     [&](Position p) { return order.before_stream(p, stream); });
  }
  std::vector<Unit> units_;
};

TEST_CASE("a buffer lies in the smallest run that its stream may use, as by the definition",
          "[allocator]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  StreamOrder order;
  for (int s = 0; s < 3; ++s) order.add_stream();
  EventOrderedAllocator allocator;
  ByUnits definition;
  struct Live {
    EventOrderedAllocator::PieceId piece;
    std::int64_t offset, bytes;
    StreamId stream;
  };
  std::vector<Live> live;
  int events = 0;
  for (int k = 0; k < 300; ++k) {
    const StreamId stream{static_cast<std::int32_t>(random.below(3))};
    if (random.chance(45) || live.empty()) {
      const std::int64_t bytes = random.below(3000);
      const auto placed = allocator.allocate(Bytes{bytes}, stream, order);
      REQUIRE(placed.offset.value == definition.allocate(bytes, stream, order));
      live.push_back({placed.piece, placed.offset.value, bytes, stream});
    } else if (random.chance(60)) {
      const auto victim = live.begin() + random.below(static_cast<std::int64_t>(live.size()));
      const Position after = order.advance(victim->stream, EventId{events++});
      allocator.release(victim->piece, after);
      definition.release(victim->offset, victim->bytes, after);
      live.erase(victim);
    } else if (events > 0) {
      order.wait(stream, EventId{static_cast<std::int32_t>(random.below(events))});
    }
    REQUIRE(allocator.consistent());
  }
}

// Another stream uses every buffer last, and the allocating stream never waits for it.
std::int64_t visits_of_rounds(int rounds) {
  Streams s;
  EventOrderedAllocator allocator;
  for (int k = 0; k < rounds; ++k) {
    const auto first = allocator.allocate(1000_bytes, compute, s.order);
    const auto second = allocator.allocate(300_bytes, compute, s.order);
    const EventId computed = s.op(compute);
    s.order.wait(gather, computed);
    allocator.release(first.piece, s.order.position_of(s.op(gather)));
    allocator.release(second.piece, s.order.position_of(computed));
  }
  return allocator.visits();
}

TEST_CASE("however many pieces wait, an allocation looks at a few", "[allocator]") {
  const std::int64_t few = visits_of_rounds(500);
  CHECK(few < 500 * 12);
  CHECK(visits_of_rounds(8000) < 17 * few);
}

}  // namespace
}  // namespace tessera
