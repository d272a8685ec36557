// SPDX-License-Identifier: Apache-2.0
// What a card refuses: the emulator says it as CUDA would, and the kernels never ask for it.
#include <array>
#include <catch2/catch.hpp>

#include "engine/backends/cuda/module/kernel_math.h"
#include "engine/backends/cuda/module/packs.h"
#include "engine/backends/cuda/module/tensor_core.h"

namespace tessera {
namespace {

using device::Grid;
using device::launch;
namespace emulator = device::emulator;

void nothing_kernel() {}

void load_kernel(const float* from, float* to) {
  if (emulator::own_lane() == 0) to[0] = device::load_pack<float, 4>(from).at[3];
}

void copy_kernel(const unsigned char* from, int at) {
  device::copy_later(device::shared_bytes() + at, from, true);
  device::end_copies();
  device::wait_for_copies<0>();
}

void matrices_kernel(int at) {
  unsigned rows[4];
  device::load_matrices(rows, device::shared_bytes() + emulator::own_lane() % 8 * 32 + at, false);
}

// Of a kernel of one warp.
template <class... Parameters, class... Arguments>
int code_of(void (*kernel)(Parameters...), Arguments... arguments) {
  return launch(kernel, {dim3(1), device::warp_threads, 4096}, nullptr, arguments...);
}

class NoProducts final : public device::Products {
 public:
  int run(const kernels::MatmulShape&, const device::ProductOperands&, CudaStream) override {
    return 0;
  }
};

}  // namespace

TEST_CASE("a grid that is larger than a card takes is refused", "[kernels]") {
  CHECK(launch(nothing_kernel, {dim3(2, 3)}, nullptr) == 0);
  CHECK(launch(nothing_kernel, {dim3(1, 65'536)}, nullptr) == emulator::invalid_configuration);
  CHECK(launch(nothing_kernel, {dim3(1, 1, 65'536)}, nullptr) == emulator::invalid_configuration);
  CHECK(launch(nothing_kernel, {dim3(1), 2'048}, nullptr) == emulator::invalid_configuration);
  CHECK(emulator::run(dim3(0), 32, 0, [] {}) == emulator::invalid_configuration);
}

TEST_CASE("a grid without blocks, which a card refuses, is not asked for", "[kernels]") {
  CHECK(launch(nothing_kernel, {dim3(0)}, nullptr) == 0);
  CHECK(launch(nothing_kernel, {dim3(3, 0)}, nullptr) == 0);
}

TEST_CASE("more shared memory than a card has is refused", "[kernels]") {
  const std::size_t before = std::exchange(emulator::shared_bytes_max(), std::size_t{99} << 10);
  CHECK(launch(nothing_kernel, {dim3(1), 32, std::size_t{99} << 10}, nullptr) == 0);
  CHECK(launch(nothing_kernel, {dim3(1), 32, std::size_t{100} << 10}, nullptr) ==
        emulator::invalid_value);
  emulator::shared_bytes_max() = before;
}

TEST_CASE("an access of several numbers that is not aligned to all of them fails", "[kernels]") {
  alignas(16) static std::array<float, 64> numbers{};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(numbers.data());
  float to = 0;
  SECTION("packs") {
    CHECK(code_of(load_kernel, numbers.data(), &to) == 0);
    CHECK(code_of(load_kernel, numbers.data() + 1, &to) == emulator::misaligned_address);
  }
  SECTION("copies to shared memory") {
    CHECK(code_of(copy_kernel, bytes, 16) == 0);
    CHECK(code_of(copy_kernel, bytes, 8) == emulator::misaligned_address);
    CHECK(code_of(copy_kernel, bytes + 4, 16) == emulator::misaligned_address);
  }
  SECTION("rows of matrices") {
    CHECK(code_of(matrices_kernel, 0) == 0);
    CHECK(code_of(matrices_kernel, 8) == emulator::misaligned_address);
  }
}

TEST_CASE("kernels of no numbers are no failure", "[kernels]") {
  const auto math = device::make_kernel_math(std::make_unique<NoProducts>());
  alignas(16) static std::array<float, 16> numbers{};
  const kernels::Array none{numbers.data(), DType::float32};
  float* const floats = numbers.data();
  math->use(nullptr);
  math->convert(none, none, 0);
  math->accumulate(floats, none, 0);
  math->multiply(none, none, none, 0);
  math->scale(none, 2, 0);
  math->activate(Activation::gelu, none, none, 0);
  math->activate_gated(Activation::silu, none, none, none, 0);
  math->gather_rows(none, {.count = 0}, 4, floats);
  math->scatter_rows(floats, {.count = 0}, 4, none);
  math->norm_forward({.rows = 0, .width = 4}, floats, none, {}, none, none, floats);
  CHECK(math->failure().code == 0);
  CHECK(numbers == std::array<float, 16>{});
}

}  // namespace tessera
