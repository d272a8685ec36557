// SPDX-License-Identifier: Apache-2.0
// How often a step asks a GPU for something.
#include <catch2/catch.hpp>

#include "tests/require_ok.h"
#include "tests/training/kernels/counted_step.h"

namespace tessera {
namespace {

std::int64_t launches_of(const char* model, const test::CountedShape& shape) {
  const auto loaded = load_model(std::string(TESSERA_SOURCE_DIR "/examples/models/") + model);
  REQUIRE(loaded.ok());
  const auto counts = test::count_step(*loaded, shape);
  REQUIRE(counts.ok());
  std::int64_t all = 0;
  for (const auto& [name, one] : *counts) all += one.launches;
  return all;
}

}  // namespace

TEST_CASE("a step of GPT-2 launches no more than 530 kernels, of 12 blocks and a head",
          "[kernels]") {
  const auto launches = launches_of("gpt2.json", {.batch = 16, .length = 1024});
  CHECK(launches > 400);
  CHECK(launches <= 530);
}

TEST_CASE("in fp8 each product of a block casts both operands, and the head none", "[kernels]") {
  const auto counts_of = [](bool fp8) {
    const auto loaded = load_model(TESSERA_SOURCE_DIR "/examples/models/gpt2.json");
    REQUIRE(loaded.ok());
    auto counts = test::count_step(*loaded, {.batch = 16, .length = 1024, .fp8 = fp8});
    REQUIRE(counts.ok());
    return *counts;
  };
  auto plain = counts_of(false), in_fp8 = counts_of(true);
  const std::int64_t products = 12 * 4 * 3;  // blocks, matrices, forward and backward
  CHECK(in_fp8["products in fp8"].flops + in_fp8["products"].flops == plain["products"].flops);
  CHECK(in_fp8["products"].launches + products <= plain["products"].launches);
  CHECK(in_fp8["casts to fp8"].launches == 2 * products);
}

TEST_CASE("a block of Llama launches no more than 50 kernels", "[kernels]") {
  CHECK(launches_of("llama-3-8b.json", {.batch = 1, .length = 4096}) <= 32 * 50 + 60);
}

}  // namespace tessera
