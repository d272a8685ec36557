// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/dropout.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace tessera {
namespace {

using kernels::Array;
using kernels::Dropout;
using kernels::dropout_tile;

std::vector<int> dropped_of_four(const Dropout& dropout) {
  float factors[dropout_tile];
  kernels::dropout_factors(dropout, 0, 0, 0, factors);
  std::vector<int> dropped;
  for (int k = 0; k < 4; ++k) {
    if (factors[k] == 0) dropped.push_back(k);
  }
  return dropped;
}

// Random123's kat_vectors: counter and key 0 give 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
TEST_CASE("the generator is Philox4x32-10", "[dropout]") {
  const double words[] = {0x6627e8d5p0, 0x9b00dbd8p0, 0xbc57ac4cp0, 0xe169c58dp0};
  const std::vector<int> in_order = {0, 3, 2, 1};
  for (std::size_t k = 0; k < 4; ++k) {
    const auto share = words[k] / 4294967296.0;
    const auto below = dropped_of_four({.share = static_cast<float>(share - 1e-6)});
    const auto above = dropped_of_four({.share = static_cast<float>(share + 1e-6)});
    CHECK(below.size() == k);
    CHECK(above.size() == k + 1);
    CHECK(std::set<int>(above.begin(), above.end()).contains(in_order[k]));
  }
}

TEST_CASE("so many elements are dropped as were asked for, and the mean stays", "[dropout]") {
  const kernels::Positions shape{.batch = 3, .length = 40, .width = 130};
  const std::vector<float> ones(3 * 40 * 130, 1.0F);
  for (const float share : {0.1F, 0.5F, 0.9F}) {
    std::vector<float> out(ones.size());
    kernels::drop({.share = share, .key = kernels::dropout_key(7, 3), .place = 5}, shape,
                  {ones.data(), DType::float32}, {out.data(), DType::float32}, 1);
    double sum = 0;
    double zeros = 0;
    for (const float x : out) {
      sum += static_cast<double>(x);
      zeros += x == 0 ? 1 : 0;
    }
    const auto count = static_cast<double>(out.size());
    const auto p = static_cast<double>(share);
    CHECK(zeros / count == Approx(p).margin(4 * std::sqrt(p * (1 - p) / count)));
    CHECK(sum / count == Approx(1).margin(4 * std::sqrt(p / (1 - p) / count)));
  }
}

TEST_CASE("dropped elements depend on key, place, sequence, row and column alone", "[dropout]") {
  const auto mask = [](const Dropout& dropout, std::int64_t batch, int threads) {
    const kernels::Positions shape{.batch = batch, .length = 5, .width = 70};
    const std::vector<float> from(static_cast<std::size_t>(batch * 5 * 70), 1.0F);
    std::vector<float> to(from.size(), 2.0F);
    kernels::add_dropped(dropout, shape, from.data(), to.data(), threads);
    return to;
  };
  const Dropout first{.share = 0.5F, .key = kernels::dropout_key(1, 2), .place = 3};
  const auto all = mask(first, 4, 1);
  CHECK(mask(first, 4, 2) == all);
  Dropout later = first;
  later.first_sample = 2;
  const auto half = mask(later, 2, 1);
  CHECK(std::vector<float>(all.begin() + 2 * 5 * 70, all.end()) == half);
  std::set<std::vector<float>> masks = {half, mask(first, 2, 1)};
  for (const Dropout& other :
       {Dropout{0.5F, kernels::dropout_key(1, 3), 3, 0},
        Dropout{0.5F, kernels::dropout_key(2, 2), 3, 0}, Dropout{0.5F, first.key, 4, 0}}) {
    masks.insert(mask(other, 2, 1));
  }
  CHECK(masks.size() == 5);
}

}  // namespace
}  // namespace tessera
