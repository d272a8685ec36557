// SPDX-License-Identifier: Apache-2.0
#include "tessera/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "tests/random.h"

namespace tessera {
namespace {

constexpr std::uint64_t first_seed = 1;
constexpr int seeds = 200;

struct RandomSampler {
  TokenRange range;
  std::int64_t sequence_length = 1;
  Sampler sampler;
};

RandomSampler random_sampler(test::Random& random) {
  const std::int64_t length = 1 + random.below(20);
  const TokenRange range{random.below(100), length + 1 + random.below(2000)};
  auto sampler = Sampler::create("book", range, length, random.next());
  REQUIRE(sampler.ok());
  return {range, length, *sampler};
}

TEST_CASE("a permutation has every index once, and another key another order", "[sampler]") {
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    const std::int64_t count = 1 + random.below(3000);
    const std::uint64_t key = random.next();
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> other;
    for (std::int64_t k = 0; k < count; ++k) {
      order.push_back(permuted(k, count, key));
      other.push_back(permuted(k, count, key + 1));
    }
    if (count > 50) CHECK(order != other);
    CHECK_FALSE((count > 50 && std::is_sorted(order.begin(), order.end())));
    std::sort(order.begin(), order.end());
    for (std::int64_t k = 0; k < count; ++k) {
      REQUIRE(order[static_cast<std::size_t>(k)] == k);
    }
  }
}

TEST_CASE("an epoch's windows are different ones, all inside the range", "[sampler]") {
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    const auto [range, length, sampler] = random_sampler(random);
    const std::int64_t epoch = random.below(5);
    std::set<std::int64_t> begins;
    for (std::int64_t k = 0; k < sampler.samples(); ++k) {
      const std::int64_t first = sampler.first_token({epoch, k});
      REQUIRE(first >= range.first);
      REQUIRE(first + length + 1 <= range.first + range.count);
      begins.insert(first);
    }
    CHECK(static_cast<std::int64_t>(begins.size()) == sampler.samples());
  }
}

TEST_CASE("going on from any state is the same as never having stopped", "[sampler]") {
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    const auto made = random_sampler(random);
    const std::int64_t first = random.below(3 * made.sampler.samples());
    const std::int64_t second = random.below(3 * made.sampler.samples());
    const SamplerState there = made.sampler.after(made.sampler.after({}, first), second);
    CHECK(there == made.sampler.after({}, first + second));
    CHECK(made.sampler.check(there).ok());
    CHECK(made.sampler.first_token(there) ==
          made.sampler.first_token(made.sampler.after({}, first + second)));
  }
}

TEST_CASE("epochs have orders of their own", "[sampler]") {
  const auto sampler = Sampler::create("book", {0, 10'000}, 10, 7);
  REQUIRE(sampler.ok());
  std::int64_t same = 0;
  for (std::int64_t k = 0; k < sampler->samples(); ++k) {
    same += sampler->first_token({0, k}) == sampler->first_token({1, k}) ? 1 : 0;
  }
  CHECK(same < 20);
}

TEST_CASE("an epoch takes every range as often as its weight says, within its borders",
          "[sampler]") {
  const std::vector<SampledRange> ranges = {
      {{0, 1001}, 1}, {{1001, 501}, 2.5}, {{1502, 2001}, 0.25}};
  const auto sampler = Sampler::create(ranges, 10, 7);
  REQUIRE(sampler.ok());
  CHECK(sampler->samples() == 100 + 125 + 50);
  std::set<std::int64_t> of_last;  // in all epochs
  for (std::int64_t epoch = 0; epoch < 30; ++epoch) {
    std::map<std::size_t, std::map<std::int64_t, int>> begun;
    for (std::int64_t k = 0; k < sampler->samples(); ++k) {
      const std::int64_t first = sampler->first_token({epoch, k});
      const std::size_t part = first < 1001 ? 0 : first < 1502 ? 1 : 2;
      const TokenRange& range = ranges[part].tokens;
      CHECK(first + 11 <= range.first + range.count);
      ++begun[part][first];
      if (part == 2) of_last.insert(first);
    }
    CHECK(begun[0].size() == 100);
    CHECK(begun[1].size() == 50);
    for (const auto& [first, times] : begun[1]) CHECK((times == 2 || times == 3));
    CHECK(begun[2].size() == 50);
  }
  CHECK(of_last.size() > 500);
}

TEST_CASE("too few tokens for a sequence, and states of other data, are refused", "[sampler]") {
  const auto few = Sampler::create("book", {0, 8}, 8, 0);
  REQUIRE_FALSE(few.ok());
  CHECK(few.status().message() ==
        "book: 8 tokens are too few: a sequence of 8 needs 9, the last one as its target: use more "
        "data or shorter sequences");
  const auto least = Sampler::create("book", {0, 9}, 8, 0);
  REQUIRE(least.ok());
  CHECK(least->samples() == 1);
  CHECK(least->first_token({5, 0}) == 0);
  CHECK_FALSE(least->check({0, 1}).ok());
  CHECK_FALSE(least->check({-1, 0}).ok());
}

}  // namespace
}  // namespace tessera
