// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/stream_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/random.h"

namespace tessera {
namespace {

TEST_CASE("happens-before equals reachability in the graph of waits", "[stream_order]") {
  const std::uint64_t seed = GENERATE(range(1, 50));
  INFO("seed=" << seed);
  test::Random random(seed);
  constexpr int streams = 4;
  StreamOrder order;
  for (int s = 0; s < streams; ++s) order.add_stream();
  // known[s]: the events that are over before the next op of stream s, by brute force.
  std::vector<std::set<int>> known(streams);
  std::vector<std::set<int>> over;  // by event, itself included
  std::vector<Position> positions;
  for (int k = 0; k < 200; ++k) {
    const auto s = static_cast<std::size_t>(random.below(streams));
    const StreamId stream{static_cast<std::int32_t>(s)};
    if (random.chance(50)) {
      const int event = static_cast<int>(over.size());
      positions.push_back(order.advance(stream, EventId{event}));
      known[s].insert(event);
      over.push_back(known[s]);
    } else if (!over.empty() && random.chance(70)) {
      const int event = static_cast<int>(random.below(static_cast<std::int64_t>(over.size())));
      order.wait(stream, EventId{event});
      known[s].insert(over[static_cast<std::size_t>(event)].begin(),
                      over[static_cast<std::size_t>(event)].end());
    } else {
      const auto other = static_cast<std::size_t>(random.below(streams));
      order.wait_stream(stream, StreamId{static_cast<std::int32_t>(other)});
      known[s].insert(known[other].begin(), known[other].end());
    }
    if (random.chance(10)) order.prune();
    if (random.chance(10)) {
      StreamClock reached{};
      for (std::size_t e = 0; e < positions.size(); ++e) {
        const bool by_all = std::all_of(known.begin(), known.end(), [e](const auto& those) {
          return those.contains(static_cast<int>(e));
        });
        if (by_all) ++reached[static_cast<std::size_t>(positions[e].stream)];
      }
      CHECK(order.reached_by_all() == reached);
    }
    for (std::size_t e = 0; e < positions.size(); ++e) {
      CHECK(order.before_stream(positions[e], stream) == known[s].contains(static_cast<int>(e)));
    }
  }
  for (int e = order.first_live().value; e < static_cast<int>(over.size()); ++e) {
    for (std::size_t earlier = 0; earlier < positions.size(); ++earlier) {
      CHECK(order.before_event(positions[earlier], EventId{e}) ==
            over[static_cast<std::size_t>(e)].contains(static_cast<int>(earlier)));
    }
  }
}

TEST_CASE("a stream that is alone has reached all that it was given", "[stream_order]") {
  StreamOrder order;
  order.add_stream();
  for (int event = 0; event < 3; ++event) {
    order.advance(StreamId{0}, EventId{event});
    CHECK(order.reached_by_all()[0] == static_cast<std::uint32_t>(event + 1));
  }
  order.add_stream();
  CHECK(order.reached_by_all()[0] == 0);
  order.wait_stream(StreamId{1}, StreamId{0});
  CHECK(order.reached_by_all()[0] == 3);
}

}  // namespace
}  // namespace tessera
