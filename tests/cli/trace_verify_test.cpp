// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/printable.h"
#include "tests/cli/program.h"

namespace tessera {
namespace {

using test::run_tessera;

TEST_CASE("control characters of a file do not reach the terminal", "[cli]") {
  CHECK(cli::printable("model.layers.3 κόσμος 🚀") == "model.layers.3 κόσμος 🚀");
  CHECK(cli::printable("a\x1b[2Jb\nc\td\x7f") == "a\\x1b[2Jb\\x0ac\\x09d\\x7f");
  CHECK(cli::printable("\xc2\x9b"
                       "31m") == "\\xc2\\x9b31m");
  CHECK(cli::printable("\xff\xfe cut \xe2\x82") == "\\xff\\xfe cut \\xe2\\x82");
  CHECK(cli::printable(std::string_view("nul\0", 4)) == "nul\\x00");
}

TEST_CASE("trace verify says what is damaged, and that a whole trace is whole", "[cli]") {
  const std::string path = test::run_folder() + "verify.tessera";
  std::filesystem::copy_file(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera", path,
                             std::filesystem::copy_options::overwrite_existing);
  const auto whole = run_tessera("trace verify " + path);
  CHECK(whole.exit_code == 0);
  CHECK(whole.output.find("is whole: content hash b95f940cc9c3692a") != std::string::npos);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300'000);
    file.write("damage damage", 13);
  }
  const auto damaged = run_tessera("trace verify " + path + " --json");
  INFO(damaged.messages);
  CHECK(damaged.exit_code == 2);
  const auto json = nlohmann::json::parse(damaged.output);
  CHECK(json["whole"] == false);
  REQUIRE(!json["damages"].empty());
  INFO(json["damages"][0].get<std::string>());
  CHECK(json["damages"][0].get<std::string>().find("damaged") != std::string::npos);
  const auto missing = run_tessera("trace verify " + path + ".none");
  CHECK(missing.exit_code == 2);
  CHECK(missing.output.empty());
}

}  // namespace
}  // namespace tessera
