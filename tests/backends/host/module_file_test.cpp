// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/module_file.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/temporary_folder.h"

namespace tessera {

TEST_CASE("modules are found where a program or its environment says", "[host]") {
  const test::TemporaryFolder folder;
  const std::string file = "libtessera_of_a_test.so";
  std::ofstream(folder.path() + "/" + file) << "no library";
  CHECK_FALSE(find_module(file, ""));
  CHECK(find_module(file, folder.path()) == folder.path() + "/" + file);
  REQUIRE(setenv("TESSERA_MODULES", folder.path().c_str(), 1) == 0);
  CHECK(find_module(file, "") == folder.path() + "/" + file);
  CHECK_FALSE(find_module(file, "/nowhere"));  // what the program says comes first
  REQUIRE(setenv("TESSERA_MODULES", "", 1) == 0);
  CHECK_FALSE(find_module(file, ""));
  unsetenv("TESSERA_MODULES");
}

}  // namespace tessera
