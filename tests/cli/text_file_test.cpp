// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "engine/text/set_aside.h"
#include "tests/temporary_folder.h"

namespace tessera::cli {

TEST_CASE("a text file is written whole, and nothing is left where it cannot be", "[cli]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path();
  const std::string file = path / "a.json";
  REQUIRE(write_text_file(file, "first").ok());
  REQUIRE(write_text_file(file, "second").ok());
  std::string text;
  std::ifstream(file) >> text;
  CHECK(text == "second");
  std::filesystem::create_directory(path / "b.json");
  for (const char* bad : {"b.json", "nowhere/c.json"}) {
    const Status refused = write_text_file(path / bad, "text");
    CHECK(refused.code() == Code::io_error);
    CHECK(refused.message().find(bad) != std::string::npos);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 2);
}

TEST_CASE("what is written to a link goes to the file behind it", "[cli]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path();
  std::filesystem::create_directory(path / "disk");
  std::filesystem::create_symlink("disk/a.json", path / "first");  // relative, and not there yet
  std::filesystem::create_symlink(path / "first", path / "link");
  for (const char* text : {"one", "two"}) {
    REQUIRE(write_text_file(path / "link", text).ok());
    std::string found;
    std::ifstream(path / "disk" / "a.json") >> found;
    CHECK(found == text);
    CHECK(std::filesystem::is_symlink(path / "link"));
    CHECK(std::filesystem::is_symlink(path / "first"));
  }
}

TEST_CASE("a file that is set aside is back unless it is replaced", "[cli]") {
  const test::TemporaryFolder folder;
  const std::string config = folder.path() + "/config.json";
  const auto is_there = [&](const char* ending) {
    return std::filesystem::exists(config + ending);
  };
  REQUIRE(write_text_file(config, "old").ok());
  {
    const SetAside aside(config);
    CHECK_FALSE(is_there(""));
    CHECK(is_there(".before"));
  }
  CHECK(is_there(""));
  {
    SetAside aside(config);
    aside.replaced();
  }
  CHECK_FALSE(is_there(""));
  CHECK_FALSE(is_there(".before"));
  { const SetAside nothing(config); }
  CHECK_FALSE(is_there(""));
}

}  // namespace tessera::cli
