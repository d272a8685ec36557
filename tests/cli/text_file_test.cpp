// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

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

}  // namespace tessera::cli
