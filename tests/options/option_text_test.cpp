// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tessera/scheme.h"
#include "tests/options/sample_value.h"

namespace tessera::test {
namespace {

TEST_CASE("a value that is written as text is read as it was", "[options]") {
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) {
      for (const OptionValue& value : {option.standard, sample_value(option)}) {
        INFO(flag_of(option) << " " << to_text(value));
        const auto read = parse_option(option, to_text(value));
        INFO(read.status().message());
        REQUIRE(read.ok());
        CHECK(*read == value);
      }
    }
  }
}

TEST_CASE("what an option cannot be is refused with what it can be", "[options]") {
  const Option count{.name = "count", .least = 1, .most = 8, .kind = OptionKind::integer};
  CHECK(parse_option(count, "0").status().message() ==
        "--count: '0' is out of range, choose 1 to 8");
  CHECK(parse_option(count, "9").status().message() ==
        "--count: '9' is out of range, choose 1 to 8");
  CHECK(parse_option(count, "x").status().message() == "--count: 'x' is no number, choose 1 to 8");
  for (const char* text : {"1.0", "1e0", "2.5"}) {
    CHECK(parse_option(count, text).status().message() ==
          "--count: '" + std::string(text) + "' is no whole number, choose 1 to 8");
  }
  CHECK(parse_option(count, "99999999999999999999").status().message().find("out of range") !=
        std::string::npos);
  CHECK(checked_option(count, 0.5, "count").status().message() ==
        "count: '0.5' is no whole number, choose 1 to 8");
  CHECK(checked_option(count, "3", "count").status().message() ==
        "count: '3' is no number, choose 1 to 8");
  const Option colour{.name = "dark_colour",
                      .words = {"blue", "black"},
                      .unset = "none",
                      .kind = OptionKind::word,
                      .standard = "blue"};
  CHECK(parse_option(colour, "red").status().message() ==
        "--dark-colour: 'red' is unknown, choose blue, black, or none");
  CHECK(*parse_option(colour, "none") == OptionValue("none"));
  for (const std::string number : {"nan", "inf", "-1", "1e99"}) {
    const Option share{.name = "share", .most = 1, .kind = OptionKind::number};
    CHECK(!parse_option(share, number).ok());
  }
}

TEST_CASE("short names of dtypes mean the long ones", "[options]") {
  Scheme scheme = FullyShardOptions{};
  REQUIRE(set_option(scheme, "param_dtype", "bf16").ok());
  CHECK(std::get<FullyShardOptions>(scheme).param_dtype == DType::bfloat16);
}

TEST_CASE("what is on unless it is switched off has a flag that says no", "[options]") {
  const Option on{.name = "init_sync", .standard = true};
  CHECK(flag_of(on) == "--no-init-sync");
  const Option off{.name = "init_sync", .standard = false};
  CHECK(flag_of(off) == "--init-sync");
}

}  // namespace
}  // namespace tessera::test
