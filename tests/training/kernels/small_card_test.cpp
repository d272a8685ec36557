// SPDX-License-Identifier: Apache-2.0
// Which kernels of attention a card with little shared memory takes.
#include <array>
#include <catch2/catch.hpp>

#include "engine/backends/cuda/module/language_kernels.h"
#include "tests/training/kernels/emulator/cuda_runtime.h"

namespace tessera {
namespace {

bool takes_tiles(std::int64_t head_dim, std::size_t shared_bytes) {
  const kernels::AttentionShape shape{.batch = 1,
                                      .length = 64,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .head_dim = head_dim,
                                      .dtype = DType::bfloat16,
                                      .q_stride = head_dim,
                                      .kv_stride = head_dim};
  alignas(16) static std::array<std::byte, 16> numbers{};
  const kernels::ConstArray any{numbers.data(), DType::bfloat16};
  std::size_t& most = device::emulator::shared_bytes_max();
  const std::size_t before = std::exchange(most, shared_bytes);
  const bool fits = device::fits_tiles(shape, {any, any, any}, any);
  most = before;
  return fits;
}

}  // namespace

TEST_CASE("heads whose tiles do not fit into a card's shared memory take the plain kernels",
          "[kernels]") {
  constexpr std::size_t hopper = 227 << 10;
  constexpr std::size_t ada = 99 << 10;  // L4, L40, RTX 4090; A10, too
  CHECK(takes_tiles(128, hopper));
  CHECK(takes_tiles(64, hopper));
  CHECK(takes_tiles(64, ada));
  CHECK_FALSE(takes_tiles(128, ada));
}

}  // namespace tessera
