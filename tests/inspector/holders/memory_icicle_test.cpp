// SPDX-License-Identifier: Apache-2.0
#include "inspector/holders/memory_icicle.h"

#include <catch2/catch.hpp>

namespace tessera::inspector {
namespace {

analysis::MemoryMoment made_moment() {
  analysis::MemoryMoment moment;
  const auto hold = [&](const char* unit, MemoryClass memory_class, const char* name, int bytes) {
    moment.holders.push_back({name, unit, memory_class, Bytes{bytes}, 1});
  };
  hold("h.10", MemoryClass::activations, "out", 50);
  hold("h.2", MemoryClass::activations, "out", 40);
  hold("h.2", MemoryClass::sharded_parameters, "weight", 30);
  hold("h.10", MemoryClass::activations, "in", 20);
  hold("", MemoryClass::temporary, "", 10);
  hold("h.2", MemoryClass::pinned_host, "weight", 500);  // not on the device
  return moment;
}

TEST_CASE("each part of the memory's picture lies below the one that it is a part of",
          "[inspector][holders]") {
  const auto parts = icicle_of(made_moment(), nullptr);
  CHECK(parts.front().bytes == Bytes{150});
  std::vector<std::string> units;
  std::array<double, 4> reached{};
  std::array<Bytes, 4> sums{};
  std::array<const IciclePart*, 4> above{};
  for (const IciclePart& part : parts) {
    const auto level = static_cast<std::size_t>(part.level);
    INFO(part.level << " " << part.unit << " " << part.buffer);
    CHECK(part.from >= reached[level] - 1e-12);
    reached[level] = part.to;
    sums[level] += part.bytes;
    above[level] = &part;
    CHECK(part.to - part.from == Approx(static_cast<double>(part.bytes.value) / 150));
    if (level > 0) {
      CHECK(part.from >= above[level - 1]->from - 1e-12);
      CHECK(part.to <= above[level - 1]->to + 1e-12);
    }
    if (level == 1) units.push_back(part.unit);
  }
  for (const Bytes sum : sums) CHECK(sum == Bytes{150});
  CHECK(units == std::vector<std::string>{"", "h.2", "h.10"});
}

TEST_CASE("one unit alone fills the memory's picture", "[inspector][holders]") {
  const std::string unit = "h.2", none = "h.77";
  const auto parts = icicle_of(made_moment(), &unit);
  CHECK(parts.front().bytes == Bytes{70});
  CHECK(parts.back().to == 1);
  CHECK(icicle_of(made_moment(), &none).empty());
  CHECK(icicle_of({}, nullptr).empty());
}

}  // namespace
}  // namespace tessera::inspector
