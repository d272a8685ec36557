// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/format.h"

#include <catch2/catch.hpp>

namespace tessera::inspector {
namespace {

TEST_CASE("numbers are written with three digits and a unit", "[inspector][format]") {
  CHECK(format_time(0) == "0 ns");
  CHECK(format_time(1'240'000) == "1.24 ms");
  CHECK(format_time(84'100) == "84.1 µs");
  CHECK(format_time(999'999) == "1.00 ms");
  CHECK(format_bytes(Bytes{404'800'000}) == "405 MB");
  CHECK(format_memory(Bytes{1'288'490'189}) == "1.20 GiB");
  CHECK(format_rate(301e9) == "301 GB/s");
  CHECK(format_flops(8.412e10) == "84.1 GFLOP");
  CHECK(format_percent(0.164) == "16.4 %");
  CHECK(format_count(8'030'261'248) == "8 030 261 248");
  CHECK(format_count(-1234) == "-1 234");
  CHECK(format_count(999) == "999");
  CHECK(format_many(1, "rank") == "1 rank");
  CHECK(format_many(64, "rank") == "64 ranks");
}

}  // namespace
}  // namespace tessera::inspector
