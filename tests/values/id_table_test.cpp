// SPDX-License-Identifier: Apache-2.0
#include "engine/values/id_table.h"

#include <catch2/catch.hpp>
#include <map>

#include "tessera/types.h"
#include "tests/random.h"

namespace tessera {
namespace {

TEST_CASE("a table of ascending ids is a map", "[runtime][property]") {
  const std::uint64_t seed = GENERATE(range(1, 20));
  INFO("seed=" << seed);
  test::Random random(seed);
  IdTable<BufferId, std::int64_t> table;
  std::map<BufferId, std::int64_t> map;
  std::int32_t next = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    if (random.chance(55)) {
      next += static_cast<std::int32_t>(random.below(3)) + 1;
      map[BufferId{next}] = table.add(BufferId{next}, turn);
    } else {
      const BufferId id{static_cast<std::int32_t>(random.below(next + 2))};
      table.erase(id);
      map.erase(id);
    }
    const BufferId id{static_cast<std::int32_t>(random.below(next + 2))};
    const auto found = map.find(id);
    const std::int64_t* value = table.find(id);
    REQUIRE((value != nullptr) == (found != map.end()));
    if (value != nullptr) CHECK(*value == found->second);
  }
  auto expected = map.begin();
  const bool stopped = table.any_of([&](BufferId id, std::int64_t value) {
    REQUIRE(expected != map.end());
    CHECK(id == expected->first);
    CHECK(value == (expected++)->second);
    return false;
  });
  CHECK_FALSE(stopped);
  CHECK(expected == map.end());
}

}  // namespace
}  // namespace tessera
