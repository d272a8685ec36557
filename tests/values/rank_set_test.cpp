// SPDX-License-Identifier: Apache-2.0
#include "tessera/rank_set.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/random.h"

namespace tessera {
namespace {

TEST_CASE("a RankSet behaves like a set of ranks", "[runtime][rank_set]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  auto draw = [&] {
    std::vector<Rank> ranks;
    for (std::int64_t k = random.below(30); k > 0; --k) {
      ranks.push_back(static_cast<Rank>(random.below(40)));
    }
    return ranks;
  };
  const auto a_ranks = draw();
  const auto b_ranks = draw();
  const std::set<Rank> a_set(a_ranks.begin(), a_ranks.end());
  const std::set<Rank> b_set(b_ranks.begin(), b_ranks.end());
  const RankSet a = RankSet::of(a_ranks);
  const RankSet b = RankSet::of(b_ranks);
  const RankSet both = a.intersect(b);
  const RankSet left = a.minus(b);
  Rank count = 0;
  bool covered = true;
  for (Rank r = 0; r < 45; ++r) {
    CHECK(a.contains(r) == a_set.contains(r));
    CHECK(both.contains(r) == (a_set.contains(r) && b_set.contains(r)));
    CHECK(left.contains(r) == (a_set.contains(r) && !b_set.contains(r)));
    count += a_set.contains(r) ? 1 : 0;
    covered &= a_set.contains(r) || !b_set.contains(r);
  }
  CHECK(a.count() == count);
  CHECK(a.covers(b) == covered);
}

TEST_CASE("a RankSet prints as ranges", "[runtime][rank_set]") {
  CHECK(RankSet::of({9, 0, 1, 2, 1}).to_string() == "0-2,9");
  CHECK(RankSet{}.to_string() == "none");
}

TEST_CASE("strided groups place every rank once", "[runtime][rank_set]") {
  const auto groups = RankGroups::strided(24, 3, 4);
  REQUIRE(groups.ok());
  CHECK(groups->group_count() == 8);
  for (Rank r = 0; r < 24; ++r) {
    CHECK(groups->member(groups->group_of(r), groups->index_of(r)) == r);
  }
  CHECK(groups->member(0, 0) == 0);
  CHECK(groups->member(0, 1) == 4);
  CHECK(groups->member(4, 0) == 12);
}

TEST_CASE("explicit groups may differ in size and leave ranks out", "[runtime][rank_set]") {
  const auto groups = RankGroups::of({{3, 1}, {0, 4, 5}});
  REQUIRE(groups.ok());
  CHECK(groups->group_of(2) == -1);
  CHECK(groups->group_of(1) == 0);
  CHECK(groups->index_of(1) == 1);
  CHECK(groups->group_size(1) == 3);
  CHECK(groups->ranks().to_string() == "0-1,3-5");
}

TEST_CASE("groups that cannot be are refused with a reason", "[runtime][rank_set]") {
  CHECK(RankGroups::strided(10, 4).status().message() ==
        "groups of 4 ranks, 1 apart, do not divide 10 ranks evenly");
  CHECK(RankGroups::of({{0, 1}, {1}}).status().message() ==
        "rank 1 is in group 0 and again in group 1, groups must be disjoint");
  CHECK(RankGroups::of({{0}, {}}).status().message() == "group 1 has no ranks");
  CHECK(RankGroups::of({{-2}}).status().message() == "group 0 has rank -2, ranks start at 0");
}

}  // namespace
}  // namespace tessera
