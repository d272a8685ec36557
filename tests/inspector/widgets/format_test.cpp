// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/format.h"

#include <catch2/catch.hpp>

#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

TEST_CASE("numbers are written with three digits and a unit", "[inspector][format]") {
  CHECK(format_time(0) == "0 ns");
  CHECK(format_time(1'240'000) == "1.24 ms");
  CHECK(format_time(84'100) == "84.1 µs");
  CHECK(format_time(999'999) == "1.00 ms");
  CHECK(format_time(999'000'000'000) == "999 s");
  CHECK(format_time(2'365'500'000'000) == "39.4 min");
  CHECK(format_time(36'000'000'000'000) == "600 min");
  CHECK(format_time(86'400'000'000'000) == "24.0 h");
  CHECK(format_time(-1'240'000) == "-1.24 ms");
  CHECK(format_bytes(Bytes{404'800'000}) == "405 MB");
  CHECK(format_memory(Bytes{1'288'490'189}) == "1.20 GiB");
  CHECK(format_rate(301e9) == "301 GB/s");
  CHECK(format_flops(8.412e10) == "84.1 GFLOP");
  CHECK(format_percent(0.164) == "16.4 %");
  CHECK(format_count(8'030'261'248) == "8,030,261,248");
  CHECK(format_count(-1234) == "-1,234");
  CHECK(format_count(999) == "999");
  CHECK(format_many(1, "rank") == "1 rank");
  CHECK(format_many(64, "rank") == "64 ranks");
}

TEST_CASE("moments have the digits that tell them apart in what is shown", "[inspector][format]") {
  CHECK(format_moment(24'287'123'456, 12'000'000) == "24,287.1 ms");
  CHECK(format_moment(24'287'123'456, 2'000'000) == "24,287.12 ms");
  CHECK(format_moment(24'287'123'456, 24'000'000'000) == "24.3 s");
  CHECK(format_moment(24'287'123'456, 1'200'000'000) == "24.29 s");
  CHECK(format_moment(2'365'500'250'000, 100'000) == "2,365,500.250 ms");
  CHECK(format_moment(2'365'500'250'000, 100'000'000) == "2,365.500 s");
  CHECK(format_moment(37'500'000, 14'000'000) == "37.5 ms");
  CHECK(format_moment(0, 14'000'000) == "0 ns");
  CHECK(format_moment(1'234, 10) == "1,234 ns");
}

TEST_CASE("what an import is from has names of its own", "[inspector][format]") {
  storage::OpRow op;
  op.label = "FSDP::pre_forward (layers.0)";
  CHECK(foreign_name({.backend = "import"}, op) == op.label);
  CHECK(foreign_name({.backend = "simulator"}, op).empty());
  op.kind = OpKind::all_gather;
  CHECK(foreign_name({.backend = "import"}, op).empty());
}

}  // namespace
}  // namespace tessera::inspector
