// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/free_runs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/random.h"

namespace tessera {
namespace {

// The same by looking at every byte.
class Bytewise {
 public:
  explicit Bytewise(std::size_t size) : free_(size) {}
  void set(std::int64_t offset, std::int64_t bytes, bool free) {
    for (std::int64_t k = offset; k < offset + bytes; ++k) {
      free_[static_cast<std::size_t>(k)] = free;
    }
  }
  std::vector<FreeRuns::Run> runs() const {
    std::vector<FreeRuns::Run> out;
    for (std::size_t k = 0; k < free_.size(); ++k) {
      if (!free_[k]) continue;
      const auto place = static_cast<std::int64_t>(k);
      if (k == 0 || !free_[k - 1]) out.push_back({place, 0});
      ++out.back().bytes;
    }
    return out;
  }
  FreeRuns::Run best(std::int64_t bytes) const {
    FreeRuns::Run best;
    for (const auto& run : runs()) {
      if (run.bytes >= bytes && (best.bytes == 0 || run.bytes < best.bytes)) best = run;
    }
    return best;
  }
  bool is(std::int64_t place, bool free) const {
    return free_[static_cast<std::size_t>(place)] == free;
  }

 private:
  std::vector<bool> free_;
};

TEST_CASE("free runs are those of the bytes, be they few or many", "[runtime][property]") {
  constexpr std::int64_t size = 600;
  const std::uint64_t seed = 17;
  INFO("seed " << seed);
  test::Random random(seed);
  Bytewise bytes(size);
  FreeRuns runs;
  std::size_t most = 0;
  // First mostly single bytes become free, so that runs are many, then whole stretches go.
  for (int round = 0; round < 6000; ++round) {
    const bool frees = round / 1500 % 2 == 0 ? random.chance(75) : random.chance(25);
    const std::int64_t begin = random.below(size);
    std::int64_t end = begin;
    const std::int64_t longest = 1 + random.below(3);
    while (end < size && end - begin < longest && bytes.is(end, !frees)) ++end;
    if (end == begin) continue;
    bytes.set(begin, end - begin, frees);
    if (frees) {
      runs.add(begin, end - begin);
    } else {
      runs.remove(begin, end - begin);
    }
    const auto expected = bytes.runs();
    most = std::max(most, expected.size());
    REQUIRE(runs.size() == expected.size());
    const std::int64_t wanted = 1 + random.below(8);
    const auto found = runs.best(wanted);
    REQUIRE(found.offset == bytes.best(wanted).offset);
    REQUIRE(found.bytes == bytes.best(wanted).bytes);
    for (const auto& run : expected) REQUIRE(runs.ending_at(run.end()).offset == run.offset);
  }
  CHECK(most > 2 * FreeRuns::listed_most);
}

}  // namespace
}  // namespace tessera
