// SPDX-License-Identifier: Apache-2.0
// Who owns what, and what is reduced together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "tessera/sharded_data_parallel.h"
#include "tests/random.h"

namespace tessera {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<OwnedTensor> tensors(const std::vector<std::int64_t>& sizes) {
  std::vector<OwnedTensor> out;
  for (const std::int64_t n : sizes) out.push_back({.numel = Numel{n}});
  return out;
}

std::vector<OwnedTensor> owned(const std::vector<std::int64_t>& sizes, Index ranks) {
  auto out = tensors(sizes);
  const auto owners = assign_owners(out, ranks);
  for (std::size_t k = 0; k < out.size(); ++k) out[k].owner = owners[k];
  return out;
}

const std::vector<std::int64_t> recorded = {32, 8, 64, 8, 16, 2};  // w0 b0 w1 b1 w2 b2

TEST_CASE("whoever has least gets the next tensor, as recorded", "[owner][golden]") {
  CHECK(assign_owners(tensors(recorded), 2) == std::vector<Index>{0, 1, 1, 0, 0, 0});
  CHECK(assign_owners(tensors(recorded), 1) == std::vector<Index>(6, 0));
  CHECK(assign_owners(tensors({5, 5, 5}), 5) == std::vector<Index>{0, 1, 2});  // W > tensors
  CHECK(assign_owners({}, 3).empty());
  const std::vector<std::int64_t> repeated = {9, 7, 5, 3, 9, 7, 5, 3};
  std::vector<std::int64_t> loads(2);
  const auto owners = assign_owners(tensors(repeated), 2);
  for (std::size_t k = 0; k < owners.size(); ++k) {
    loads[static_cast<std::size_t>(owners[k])] += repeated[k];
  }
  CHECK(loads == std::vector<std::int64_t>{24, 24});
}

TEST_CASE("a frozen tensor counts as one element", "[owner]") {
  auto all = tensors({4, 4, 4, 4});
  all[0].trained = false;
  // Loads 1; 4; then rank 0 again, which has 5; then rank 1.
  CHECK(assign_owners(all, 2) == std::vector<Index>{0, 1, 0, 1});
}

TEST_CASE("ownership is total, and at most twice the best load", "[owner][property]") {
  const std::uint64_t seed = GENERATE(range(1, 201));
  INFO("seed=" << seed);
  test::Random random(seed);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(1 + random.below(40)));
  for (auto& n : sizes) n = 1 + random.below(1000);
  const auto ranks = static_cast<Index>(1 + random.below(12));
  const auto owners = assign_owners(tensors(sizes), ranks);
  REQUIRE(owners.size() == sizes.size());
  CHECK(owners == assign_owners(tensors(sizes), ranks));
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks));
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    REQUIRE((owners[k] >= 0 && owners[k] < ranks));
    loads[static_cast<std::size_t>(owners[k])] += sizes[k];
  }
  const auto all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto at_least =
      std::max((all + ranks - 1) / ranks, *std::max_element(sizes.begin(), sizes.end()));
  CHECK(*std::max_element(loads.begin(), loads.end()) <= 2 * at_least);
}

TEST_CASE("buckets take tensors in ascending size, as recorded", "[owner][golden]") {
  const std::int64_t size = GENERATE(std::int64_t{73}, std::int64_t{80}, std::int64_t{1} << 40);
  const ReducePlan plan = plan_reductions(owned(recorded, 2), Numel{size});
  CHECK(plan.buckets == std::vector<Indices>{{5, 3, 4, 0}, {1, 2}});
  CHECK(plan.direct.empty());
}

TEST_CASE("a bucket stays below its size", "[owner]") {
  SECTION("what would fill it exactly is reduced alone") {
    const ReducePlan plan = plan_reductions(owned(recorded, 2), Numel{72});
    CHECK(plan.buckets == std::vector<Indices>{{5, 3, 4, 0}, {1}});
    CHECK(plan.direct == Indices{2});
  }
  SECTION("no size, no buckets") {
    const ReducePlan plan = plan_reductions(owned(recorded, 2), Numel{0});
    CHECK(plan.buckets.empty());
    CHECK(plan.direct == Indices{5, 3, 1, 4, 0, 2});  // by size, then owner
  }
  SECTION("a single tensor is as large as all") {
    const ReducePlan plan = plan_reductions(owned({7}, 2), Numel{100});
    CHECK(plan.buckets.empty());
    CHECK(plan.direct == Indices{0});
  }
  SECTION("dtypes are apart") {
    auto all = owned({4, 4, 4, 4}, 1);
    all[1].dtype = all[2].dtype = DType::bfloat16;
    const ReducePlan plan = plan_reductions(all, Numel{100});
    CHECK(plan.buckets == std::vector<Indices>{{0, 3}, {1, 2}});
  }
}

TEST_CASE("every trained tensor is reduced once, in buckets below their size",
          "[owner][property]") {
  const std::uint64_t seed = GENERATE(range(1, 201));
  INFO("seed=" << seed);
  test::Random random(seed);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(1 + random.below(30)));
  for (auto& n : sizes) n = 1 + random.below(100);
  auto all = owned(sizes, static_cast<Index>(1 + random.below(6)));
  std::set<std::size_t> trained;
  for (std::size_t k = 0; k < all.size(); ++k) {
    all[k].trained = random.chance(80);
    if (random.chance(30)) all[k].dtype = DType::bfloat16;
    if (all[k].trained) trained.insert(k);
  }
  const Numel size{random.below(400)};
  const ReducePlan plan = plan_reductions(all, size);
  std::set<std::size_t> seen;
  for (const Indices& bucket : plan.buckets) {
    Numel fill{};
    REQUIRE_FALSE(bucket.empty());
    for (const std::size_t k : bucket) {
      CHECK(seen.insert(k).second);
      fill += all[k].numel;
      CHECK(all[k].owner == all[bucket[0]].owner);
      CHECK(all[k].dtype == all[bucket[0]].dtype);
    }
    CHECK(fill < size);
  }
  for (const std::size_t k : plan.direct) CHECK(seen.insert(k).second);
  CHECK(seen == trained);
}

}  // namespace
}  // namespace tessera
