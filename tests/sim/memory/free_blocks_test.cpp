// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/free_blocks.h"

#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "tests/random.h"

namespace tessera::sim {

TEST_CASE("the smallest free block of a stream that is large enough is found, as in a tree",
          "[caching-allocator]") {
  const std::uint64_t seed = GENERATE(range(1, 6));
  INFO("seed=" << seed);
  test::Random random(seed);
  FreeBlocks blocks;
  std::set<std::tuple<std::int32_t, std::int64_t, std::int64_t>> tree;  // stream, bytes, address
  for (int k = 0; k < 4000; ++k) {
    const auto stream = static_cast<std::int32_t>(random.below(3));
    const std::int64_t bytes = random.below(50);
    if (random.chance(k < 2000 ? 70 : 30)) {
      const FreeBlocks::Entry added{stream, k, bytes, random.below(1 << 20)};
      if (tree.emplace(stream, bytes, added.address).second) blocks.insert(added);
      continue;
    }
    const auto expected = tree.lower_bound({stream, bytes, 0});
    FreeBlocks::Entry found;
    blocks.any_of_at_least(stream, bytes, [&](const FreeBlocks::Entry& first) {
      found = first;
      return true;
    });
    const bool any = expected != tree.end() && std::get<0>(*expected) == stream;
    REQUIRE(any == (found.block >= 0));
    if (!any) continue;
    REQUIRE(*expected == std::tuple(found.stream, found.bytes, found.address));
    if (random.chance(50)) {
      blocks.erase(found);
    } else {
      REQUIRE(blocks.take(stream, bytes) == found.block);
    }
    tree.erase(expected);
  }
  CHECK(blocks.all().size() == tree.size());
}

}  // namespace tessera::sim
