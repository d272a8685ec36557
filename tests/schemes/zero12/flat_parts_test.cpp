// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero12/flat_parts.h"

#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

const std::vector<ParameterId> abc = {ParameterId{0}, ParameterId{1}, ParameterId{2}};

// 24, 30 and 15 elements.
TEST_CASE("the flat buffer is padded to a multiple of twice the ranks", "[zero12]") {
  const Model model = test::net3();
  for (Index ranks : {1, 2, 3, 4, 5, 8, 16, 100}) {
    const FlatLayout layout = flat_parts(model, abc, ranks);
    const std::int64_t unit = 2 * ranks;
    CHECK(layout.total == Numel{69});
    CHECK(layout.padded().value == (69 + unit - 1) / unit * unit);
  }
  const FlatLayout two = flat_parts(model, abc, 2);
  CHECK(two.shard == Numel{36});  // cuts through b.w, which is 24 to 54
}

TEST_CASE("round robin gives neighbours to different ranks", "[zero12]") {
  std::vector<ParameterId> ids;
  for (std::int32_t k = 0; k < 7; ++k) ids.push_back(ParameterId{k});
  std::vector<std::int32_t> order;
  for (ParameterId id : round_robin(ids, 3)) order.push_back(id.value);
  CHECK(order == std::vector<std::int32_t>{0, 3, 6, 1, 4, 2, 5});
  CHECK(round_robin(ids, 1) == ids);
}

TEST_CASE("slices of a bucket are cut at parts and joined inside of them", "[zero12]") {
  // In the order of backward: c.w 54 to 69, b.w 24 to 54, a.w 0 to 24; parts of 36.
  const std::vector<BucketEntry> entries = {{abc[2], Numel{54}, Numel{0}, Numel{15}},
                                            {abc[1], Numel{24}, Numel{15}, Numel{30}},
                                            {abc[0], Numel{0}, Numel{45}, Numel{24}}};
  const auto slices = owned_slices(entries, Numel{36});
  REQUIRE(slices.size() == 4);
  const std::vector<std::pair<Index, std::int64_t>> expected = {{1, 15}, {0, 12}, {1, 18}, {0, 24}};
  for (std::size_t k = 0; k < 4; ++k) {
    CHECK(slices[k].owner == expected[k].first);
    CHECK(slices[k].numel.value == expected[k].second);
  }
  // In the order of the flat buffer neighbours have one owner.
  const auto joined = owned_slices({{abc[0], Numel{0}, Numel{0}, Numel{24}},
                                    {abc[1], Numel{24}, Numel{24}, Numel{30}},
                                    {abc[2], Numel{54}, Numel{54}, Numel{15}}},
                                   Numel{36});
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].numel == Numel{36});
  CHECK(joined[0].pieces.size() == 2);
  CHECK(joined[1].pieces[0].in_part == Numel{0});
}

TEST_CASE("slices cover a bucket once, and pieces say where they belong", "[zero12][property]") {
  const std::uint64_t seed = GENERATE(range(1, 101));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Numel part{static_cast<std::int64_t>(1 + random.below(30))};
  std::vector<BucketEntry> entries;
  Numel offset{};
  for (int k = 0; k < 6; ++k) {
    const Numel numel{static_cast<std::int64_t>(1 + random.below(50))};
    entries.push_back(
        {ParameterId{k}, Numel{static_cast<std::int64_t>(random.below(200))}, offset, numel});
    offset += numel;
  }
  Numel at{};
  Index before = -1;
  for (const OwnedSlice& slice : owned_slices(entries, part)) {
    CHECK(slice.offset == at);
    CHECK(slice.owner != before);
    before = slice.owner;
    Numel inside = slice.offset;
    for (const OwnedPiece& piece : slice.pieces) {
      CHECK(piece.offset == inside);
      inside += piece.numel;
      const BucketEntry& entry = entries[piece.parameter.index()];
      CHECK(part * slice.owner + piece.in_part == entry.place + (piece.offset - entry.offset));
      CHECK(piece.in_part + piece.numel <= part);
    }
    CHECK(inside == slice.offset + slice.numel);
    at += slice.numel;
  }
  CHECK(at == offset);
}

}  // namespace
}  // namespace tessera
