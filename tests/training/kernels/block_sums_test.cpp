// SPDX-License-Identifier: Apache-2.0
// The GPU's kernel of checksums on the emulator: the CPU's 64 bits.
#include <catch2/catch.hpp>
#include <vector>

#include "engine/backends/cuda/module/tables.h"
#include "engine/files/block_sum.h"
#include "tests/random.h"

namespace tessera {

TEST_CASE("a GPU gives the checksums of the CPU, whatever the sizes and addresses", "[kernels]") {
  const std::uint64_t seed = GENERATE(range(1, 21));
  INFO("seed=" << seed);
  test::Random random(seed);
  const std::size_t block = 4096 * static_cast<std::size_t>(1 + random.below(4));
  std::vector<std::byte> data(static_cast<std::size_t>(1 + random.below(60'000)));
  for (std::byte& b : data) b = static_cast<std::byte>(random.next());
  const std::size_t skipped = static_cast<std::size_t>(random.below(9)) % data.size();
  const std::span part = std::span<const std::byte>(data).subspan(skipped);
  std::vector<std::uint64_t> sums((part.size() + block - 1) / block);
  REQUIRE(device::block_sums(part.data(), part.size(), block, sums.data(), nullptr) == 0);
  for (std::size_t k = 0; k < sums.size(); ++k) {
    CHECK(sums[k] == block_sum(part.subspan(k * block, std::min(block, part.size() - k * block))));
  }
}

}  // namespace tessera
