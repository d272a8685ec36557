// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/caching_allocator.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera::sim {
namespace {

constexpr StreamId compute{0};
constexpr StreamId gather{1};
constexpr std::int64_t one_mib = 1 << 20;

struct Account {
  std::int64_t allocated, active, reserved;
  bool operator==(const Account&) const = default;
};
Account account(const CachingAllocator& a) {
  return {a.allocated().value, a.active().value, a.reserved().value};
}
CachingAllocator::BlockId take(CachingAllocator& a, std::int64_t bytes, StreamId stream = compute,
                               Time now = 0) {
  return a.allocate(Bytes{bytes}, stream, now).block;
}

// Worked out by hand from the rules of PyTorch 2.x.
TEST_CASE("segments, rounding and splitting are those of PyTorch", "[caching-allocator]") {
  CachingAllocator a({});
  take(a, 1);
  CHECK(account(a) == Account{512, 512, 2 * one_mib});
  take(a, one_mib);
  CHECK(account(a) == Account{1'049'088, 1'049'088, 2 * one_mib});
  const auto third = take(a, one_mib + 1);
  CHECK(account(a) == Account{2'098'176, 2'098'176, 22 * one_mib});
  const auto fourth = take(a, 10 * one_mib);
  CHECK(account(a) == Account{12'583'936, 12'583'936, 22 * one_mib});
  const auto fifth = take(a, 11 * one_mib);  // 1 MiB of 12 is too little to be cut off
  CHECK(account(a) == Account{25'166'848, 25'166'848, 34 * one_mib});
  take(a, 512, gather);
  CHECK(account(a) == Account{25'167'360, 25'167'360, 36 * one_mib});
  a.release(fourth, gather, 100);
  CHECK(account(a) == Account{14'681'600, 25'167'360, 36 * one_mib});
  const auto seventh = take(a, 9 * one_mib, compute, 99);
  CHECK(account(a) == Account{24'118'784, 34'604'544, 56 * one_mib});
  a.release(third);
  a.release(seventh);
  a.release(fifth);
  take(a, 11 * one_mib + 5, compute,
       100);  // by now the event has happened; the block of 12 fits best
  CHECK(account(a) == Account{13'632'512, 13'632'512, 56 * one_mib});
}

TEST_CASE("a block never goes to another stream, but back to the device before it is too late",
          "[caching-allocator]") {
  CachingAllocator a({.capacity = Bytes{64 * one_mib}});
  a.release(take(a, 30 * one_mib));
  take(a, 30 * one_mib, gather);
  CHECK(account(a) == Account{30 * one_mib, 30 * one_mib, 60 * one_mib});
  const auto given = a.allocate(Bytes{30 * one_mib}, StreamId{2}, 7);
  CHECK(given.retried);
  CHECK(given.fits);
  CHECK(given.waited_until == 7);
  CHECK(account(a) == Account{60 * one_mib, 60 * one_mib, 60 * one_mib});
  CHECK(a.retries() == 1);
}

TEST_CASE("the second try waits for what other streams still use", "[caching-allocator]") {
  CachingAllocator a({.capacity = Bytes{40 * one_mib}});
  a.release(take(a, 30 * one_mib), gather, 500);
  const auto given = a.allocate(Bytes{30 * one_mib}, gather, 7);
  CHECK(given.fits);
  CHECK(given.waited_until == 500);
  CHECK_FALSE(a.allocate(Bytes{30 * one_mib}, gather, 501).fits);
  CHECK_FALSE(a.allocate(Bytes{30 * one_mib}, gather, 502).retried);  // it is too late anyway
}

TEST_CASE("a segment of which a part is used stays", "[caching-allocator]") {
  CachingAllocator a({.capacity = Bytes{40 * one_mib}});
  const auto first = take(a, 8 * one_mib);
  take(a, 8 * one_mib);
  a.release(first);
  CHECK_FALSE(a.allocate(Bytes{22 * one_mib}, gather, 0).fits);
  CHECK(a.reserved() == Bytes{(20 + 22) * one_mib});
}

TEST_CASE("expandable ranges grow by pages and close holes", "[caching-allocator]") {
  CachingAllocator a({.capacity = Bytes{100 * one_mib}, .expandable_segments = true});
  const auto first = take(a, 30 * one_mib);
  CHECK(a.reserved() == Bytes{40 * one_mib});
  const auto second = take(a, 25 * one_mib);  // 10 MiB are there
  CHECK(a.reserved() == Bytes{60 * one_mib});
  a.release(first);
  take(a, 31 * one_mib);  // the hole of 30 is too small, 5 are there at the end
  CHECK(a.reserved() == Bytes{100 * one_mib});
  a.release(second);
  take(a, 55 * one_mib);  // both holes are one
  CHECK(a.reserved() == Bytes{100 * one_mib});
}

TEST_CASE("pages of holes go back to the device and come again", "[caching-allocator]") {
  CachingAllocator a({.capacity = Bytes{80 * one_mib}, .expandable_segments = true});
  const auto first = take(a, 40 * one_mib);
  take(a, 20 * one_mib);
  a.release(first);
  const auto given = a.allocate(Bytes{45 * one_mib}, gather, 0);  // elsewhere: 40 go, 60 come
  CHECK(given.retried);
  CHECK(given.fits);
  CHECK(a.reserved() == Bytes{80 * one_mib});
  a.release(given.block);
  take(a, 30 * one_mib);  // into the hole
  CHECK(a.reserved() <= Bytes{80 * one_mib});
}

TEST_CASE("nothing is lost in any order of calls", "[caching-allocator]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  CachingAllocator a({.capacity = Bytes{random.chance(50) ? 0 : 300 * one_mib},
                      .expandable_segments = random.chance(50)});
  std::vector<CachingAllocator::BlockId> live;
  Time now = 0;
  for (int k = 0; k < 600; ++k) {
    now += random.below(10);
    if (live.empty() || random.chance(52)) {
      const std::int64_t most = random.chance(50) ? one_mib : 30 * one_mib;
      const StreamId stream{static_cast<std::int32_t>(random.below(3))};
      const auto given = a.allocate(Bytes{random.below(most)}, stream, now);
      now = std::max(now, given.waited_until);
      live.push_back(given.block);
    } else {
      const auto victim = live.begin() + random.below(static_cast<std::int64_t>(live.size()));
      random.chance(50) ? a.release(*victim) : a.release(*victim, gather, now + random.below(50));
      live.erase(victim);
    }
    REQUIRE(a.allocated() <= a.active());
    REQUIRE(a.active() <= a.reserved());
  }
  for (const auto block : live) a.release(block);
  a.allocate(Bytes{1}, compute, now + 1000);
  CHECK(a.active() == Bytes{512});
}

}  // namespace
}  // namespace tessera::sim
