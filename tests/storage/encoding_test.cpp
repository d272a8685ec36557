// SPDX-License-Identifier: Apache-2.0
#include "storage/encoding.h"

#include <catch2/catch.hpp>
#include <limits>

#include "storage/checksum.h"
#include "tests/random.h"

namespace tessera::storage {
namespace {

using test::Random;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

/// Numbers of a random width, so that every length of varint occurs.
Numbers random_column(Random& random) {
  Numbers column(static_cast<std::size_t>(1 + random.below(200)));
  for (std::int64_t& value : column) {
    value = static_cast<std::int64_t>(random.next()) >> random.below(64);
  }
  if (random.chance(20)) std::fill(column.begin(), column.end(), column.front());
  if (random.chance(30)) {  // of like width
    const std::int64_t width = random.below(64);
    for (std::int64_t& value : column) value = static_cast<std::int64_t>(random.next()) >> width;
  }
  if (random.chance(30)) {  // of like steps
    const auto period = static_cast<std::size_t>(1 + random.below(40));
    for (std::size_t i = period; i < column.size(); ++i) {
      column[i] = random.chance(95) ? column[i - period] : column[i];
    }
  }
  const std::int64_t zeros = random.chance(30) ? random.below(100) : 0;
  for (std::int64_t& value : column) value = random.chance(static_cast<int>(zeros)) ? 0 : value;
  return column;
}

TEST_CASE("a column comes back, whatever numbers it holds", "[storage][encoding]") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    const Numbers a = random_column(random), b = random_column(random);
    std::vector<std::uint8_t> bytes;
    append_column(a, bytes);
    append_column(b, bytes);
    ColumnReader reader(bytes);
    Numbers a_back(a.size()), b_back(b.size());
    REQUIRE(reader.read(a_back));
    CHECK_FALSE(reader.at_end());
    REQUIRE(reader.read(b_back));
    CHECK(reader.at_end());
    CHECK(a == a_back);
    CHECK(b == b_back);
  }
}

TEST_CASE("the extremes of int64 survive differences and zigzag", "[storage][encoding]") {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, most, least}) {
    CHECK(unzigzag(zigzag(value)) == value);
    for (const std::int64_t other : {std::int64_t{0}, std::int64_t{-1}, most, least}) {
      CHECK(wrapping_sum(wrapping_difference(value, other), other) == value);
    }
  }
  CHECK(zigzag(-1) == 1);
  CHECK(zigzag(1) == 2);
}

TEST_CASE("small numbers take one byte and a repeated one is kept once", "[storage][encoding]") {
  std::vector<std::uint8_t> bytes;
  append_column(Numbers{0, -1, 63, -64}, bytes);
  CHECK(bytes == std::vector<std::uint8_t>{0, 0, 1, 126, 127});
  bytes.clear();
  append_column(Numbers(4096, 300), bytes);
  CHECK(bytes == std::vector<std::uint8_t>{1, 0xD8, 0x04});
}

TEST_CASE("numbers of like width are packed, and of zeros only the others are kept",
          "[storage][encoding]") {
  std::vector<std::uint8_t> bytes;
  append_column(Numbers{300, -300, 301, -301, 302, -302, 303, -303}, bytes);
  // 600, 599, 602, 601, 604, 603, 606, 605 in 10 bits each.
  CHECK(bytes == std::vector<std::uint8_t>{2, 10, 0x58, 0x5E, 0xA9, 0x65, 0x96, 0x5C, 0x6E, 0xE9,
                                           0x65, 0x97});
  bytes.clear();
  Numbers sparse(100);
  sparse[3] = 5;
  sparse[90] = -1;
  append_column(sparse, bytes);
  CHECK(bytes == std::vector<std::uint8_t>{3, 4, 6, 10, 0xAC, 0x01, 1});
  Numbers back(100);
  CHECK(ColumnReader(bytes).read(back));
  CHECK(back == sparse);
  bytes.clear();
  append_column(Numbers(100), bytes, false);
  CHECK(bytes.size() == 101);
}

TEST_CASE("of steps that repeat one another the first is kept", "[storage][encoding]") {
  Random random(1);
  Numbers step(100), column;
  for (std::int64_t& value : step) value = random.below(1 << 30);
  for (int k = 0; k < 40; ++k) column.insert(column.end(), step.begin(), step.end());
  column[1234] += 5;
  std::vector<std::uint8_t> bytes;
  append_column(column, bytes);
  CHECK(bytes.front() == 4);
  CHECK(bytes.size() < 800);
  Numbers back(column.size());
  REQUIRE(ColumnReader(bytes).read(back));
  CHECK(back == column);
}

TEST_CASE("bytes that are no column are refused", "[storage][encoding]") {
  const std::vector<std::vector<std::uint8_t>> wrong = {
      {},                                                         // nothing
      {6, 0, 0},                                                  // an unknown form
      {5, 3, 65, 0, 0},                                           // numbers of more than 64 bits
      {5, 3, 8, 1},                                               // numbers that end early
      {4, 2, 4, 2, 0, 0, 0},                                      // a period within a period
      {4, 0, 0, 0, 0},                                            // a period of 0
      {4, 4, 0, 0, 0},                                            // a period of the whole column
      {4, 2},                                                     // a period alone
      {2, 65, 0, 0},                                              // numbers of more than 64 bits
      {2, 8, 1},                                                  // packed numbers that end early
      {3, 6, 0, 2, 0, 2, 0, 2},                                   // three numbers instead of two
      {3, 2, 4, 2},                                               // a number behind the last
      {3, 1},                                                     // less than none
      {0, 5},                                                     // one number instead of two
      {1},                                                        // a constant without a number
      {0, 5, 0x80},                                               // a number that does not end
      {0, 5, 0x80, 0x00},                                         // a longer spelling of 0
      {0, 0x80, 0x00, 5, 5, 5, 5, 5, 5, 5},                       // the same before other numbers
      {0, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x00, 5, 5},  // of 50 bits
      {1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02},        // 65 bits
      {1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},  // 11 bytes
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    INFO("case " << i);
    Numbers column(2);
    CHECK_FALSE(ColumnReader(wrong[i]).read(column));
  }
}

TEST_CASE("a checksum notices each change of one bit, and lengths", "[storage][encoding]") {
  Random random(3);
  std::vector<std::uint8_t> bytes(45);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  const auto value_of = [](std::span<const std::uint8_t> data) {
    Checksum checksum;
    checksum.add(data);
    return checksum.value();
  };
  const std::uint64_t original = value_of(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    CHECK(value_of(bytes) != original);
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
  bytes.push_back(0);
  CHECK(value_of(bytes) != original);
}

TEST_CASE("a checksum is part of the format and does not change", "[storage][encoding]") {
  Checksum checksum;
  CHECK(checksum.value() == 0x2AD0938A4F036B53ULL);
  checksum.add(std::string_view("tessera trace"));
  checksum.add(std::int64_t{-5});
  CHECK(checksum.value() == 0x16157E1207DA5D7FULL);
}

}  // namespace
}  // namespace tessera::storage
