// SPDX-License-Identifier: Apache-2.0
// Elements of every dtype as float: exact where they can be, to nearest even where not.
#include "engine/numbers/number.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/random.h"

namespace tessera {
namespace {

TEST_CASE("every float16 survives the way through float", "[runtime][number]") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_float16(half);
    if ((half & 0x7FFFU) > 0x7C00U) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(from_float16(to_float16(value))));
    } else {
      REQUIRE(to_float16(value) == half);
    }
  }
}

TEST_CASE("float16 has the values of IEEE 754", "[runtime][number]") {
  CHECK(from_float16(0x3C00) == 1.0F);
  CHECK(from_float16(0xC000) == -2.0F);
  CHECK(from_float16(0x7BFF) == 65504.0F);
  CHECK(from_float16(0x0400) == 0x1p-14F);
  CHECK(from_float16(0x0001) == 0x1p-24F);
  CHECK(std::signbit(from_float16(0x8000)));
  CHECK(std::isinf(from_float16(0x7C00)));
}

TEST_CASE("float16 rounds to nearest even", "[runtime][number]") {
  for (std::uint32_t bits = 0; bits < 0x7BFFU; ++bits) {  // between all finite neighbours
    const float below = from_float16(static_cast<std::uint16_t>(bits));
    const float above = from_float16(static_cast<std::uint16_t>(bits + 1));
    const float middle = below + (above - below) / 2;
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1U));
    REQUIRE(to_float16(middle) == even);
    REQUIRE(to_float16(-middle) == (even | 0x8000U));
    REQUIRE(to_float16(std::nextafter(middle, 0.0F)) == bits);
    REQUIRE(to_float16(std::nextafter(middle, INFINITY)) == bits + 1);
  }
  CHECK(to_float16(65519.996F) == 0x7BFF);
  CHECK(to_float16(65520.0F) == 0x7C00);  // the tie goes to infinity, whose last bit is even
  CHECK(to_float16(1e30F) == 0x7C00);
  CHECK(to_float16(-INFINITY) == 0xFC00);
  CHECK(to_float16(1e-30F) == 0);
  CHECK(std::isnan(from_float16(to_float16(NAN))));
}

TEST_CASE("numbers are stored as their dtype", "[runtime][number]") {
  std::array<std::byte, 12> bytes{};
  for (DType dtype :
       {DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::uint8}) {
    store_number(bytes, dtype, 2, 100.0F);
    CHECK(load_number(bytes, dtype, 2) == 100.0F);
  }
  store_number(bytes, DType::int32, 0, -1.0F);
  CHECK(load_number(bytes, DType::int32, 0) == -1.0F);
  CHECK(bytes[3] == std::byte{0xFF});
}

}  // namespace
}  // namespace tessera
