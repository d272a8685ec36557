// SPDX-License-Identifier: Apache-2.0
#include "cli/view/inspect_view.h"

#include <catch2/catch.hpp>

namespace tessera::cli {

TEST_CASE("sizes are WIDTHxHEIGHT within limits", "[cli]") {
  CHECK(parse_size("1920x1080")->width == 1920);
  CHECK(parse_size("1920x1080")->height == 1080);
  for (const char* text : {"", "1920", "1920x", "x1080", "1920*1080", "199x150", "200x149",
                           "99999x100", "-1920x1080", "1920x1080x2"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text).ok());
  }
}

TEST_CASE("time ranges are milliseconds and become nanoseconds", "[cli]") {
  CHECK(parse_time_range("12.5:40")->first == 12'500'000);
  CHECK(parse_time_range("12.5:40")->second == 40'000'000);
  CHECK(parse_time_range("0:0.000001")->second == 1);
  for (const char* text : {"", ":", "1", "1:", ":1", "2:1", "1:1", "-1:2", "nan:2", "1:inf",
                           "0:0.0000001", "0:1e300"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_time_range(text).ok());
  }
}

}  // namespace tessera::cli
