// SPDX-License-Identifier: Apache-2.0
#include "cli/options/rank_list.h"

#include <catch2/catch.hpp>

namespace tessera::cli {

TEST_CASE("rank lists are ascending", "[cli]") {
  using Ranks = std::vector<Rank>;
  CHECK(*parse_rank_list("--r", "3", 8) == Ranks{3});
  CHECK(*parse_rank_list("--r", "5,1-3", 8) == Ranks{1, 2, 3, 5});
  CHECK(*parse_rank_list("--r", "all", 3) == Ranks{0, 1, 2});
  CHECK(*parse_rank_list("--r", "none", 3) == Ranks{});
  CHECK(*parse_rank_list("--r", "slowest,0-2", 9, {1, 7}) == Ranks{0, 1, 2, 7});
}

TEST_CASE("rank lists that make no sense are refused", "[cli]") {
  for (const char* text : {"", ",", "1,", "-1", "1-", "2-1", "a", "1-2-3", "0x1", " 1", "8",
                           "99999999999", "0-8", "slowest", "0-3,2", "5,5"}) {
    CAPTURE(text);
    const auto ranks = parse_rank_list("--r", text, 8);
    REQUIRE_FALSE(ranks.ok());
    CHECK(ranks.status().code() == Code::invalid_argument);
    CHECK(ranks.status().message().starts_with("--r "));
  }
}

TEST_CASE("a rank that is named twice is refused, unless it is among the slowest", "[cli]") {
  const auto twice = parse_rank_list("--r", "0-3,5,2", 8);
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.status().message() == "--r 0-3,5,2: rank 2 is named twice");
  CHECK_FALSE(parse_rank_list("--r", "slowest,slowest", 8, {1}).ok());
  CHECK(parse_rank_list("--r", "0-3,slowest", 8, {2}).ok());
}

}  // namespace tessera::cli
