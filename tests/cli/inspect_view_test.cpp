// SPDX-License-Identifier: Apache-2.0
#include "cli/view/inspect_view.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_folder.h"

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

TEST_CASE("a picture takes the place of pictures only", "[cli]") {
  const test::TemporaryFolder folder;
  const std::string trace = folder.path() + "/run.tessera", png = folder.path() + "/run.png";
  std::ofstream(trace) << "SQLite format 3";
  std::ofstream(png) << "\x89PNG\r\n\x1a\nIHDR";
  CHECK(check_picture(trace).message() ==
        "--screenshot " + trace + ": exists and is no PNG picture: choose another name");
  CHECK(check_picture(png).ok());
  CHECK(check_picture(folder.path() + "/new").ok());
  CHECK(check_picture("/dev/stdout").ok());
  CHECK_FALSE(check_picture("run.JPG").ok());
}

}  // namespace tessera::cli
