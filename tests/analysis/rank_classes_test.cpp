// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/rank_classes.h"

#include <catch2/catch.hpp>

namespace tessera::analysis {
namespace {

Outlier above(Rank first, Rank last) { return {first, last, 0, 9, 0.2, 10, 1000}; }
Outlier below(Rank first, Rank last) { return {first, last, 0, 9, -0.2, 10, -1000}; }

TEST_CASE("ranks that stand out alike are a class, all others one", "[analysis][metrics]") {
  const std::vector<Outlier> compute = {above(5, 6), above(40, 40)}, wait = {below(5, 6)}, none;
  const auto outliers_of = [&](Metric metric) -> const std::vector<Outlier>& {
    return metric == Metric::compute ? compute : metric == Metric::wait ? wait : none;
  };
  const auto classes = rank_classes(1 << 20, outliers_of);
  REQUIRE(classes.size() == 3);
  CHECK(classes[0].count == (1 << 20) - 3);
  CHECK(words_of(classes[0]).empty());
  CHECK(classes[0].ranges ==
        std::vector<std::pair<Rank, Rank>>{{0, 4}, {7, 39}, {41, (1 << 20) - 1}});
  CHECK(classes[1].ranges == std::vector<std::pair<Rank, Rank>>{{5, 6}});
  CHECK(words_of(classes[1]) == "computes longer, waits less");
  CHECK(classes[2].ranges == std::vector<std::pair<Rank, Rank>>{{40, 40}});
  CHECK(words_of(classes[2]) == "computes longer");
  // What a damaged trace says of ranks that the run does not have is left out.
  CHECK(rank_classes(6, outliers_of).back().ranges == std::vector<std::pair<Rank, Rank>>{{5, 5}});
  CHECK(rank_classes(0, outliers_of).empty());
}

}  // namespace
}  // namespace tessera::analysis
