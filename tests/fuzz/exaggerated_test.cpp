// SPDX-License-Identifier: Apache-2.0
// Files that claim more than they hold: what nobody recorded costs next to nothing.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tessera/exchange/import.h"
#include "tests/exchange/made_profile.h"
#include "tests/fuzz/heap_use.h"
#include "tests/require_ok.h"
#include "tests/temporary_folder.h"

namespace tessera::test {
namespace {

// It is in front of the mutations: without a sanitizer only what a process has never had counts.
TEST_CASE("a small file that claims very many ranks is imported in little memory", "[fuzz]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/rank0.json";
  MadeProfile plan;
  plan.steps = plan.layers = 1;
  std::string profile = made_profile(plan);
  const std::string world = R"("world_size": 4)";
  const std::size_t at = profile.find(world);
  REQUIRE(at != std::string::npos);
  profile.replace(at, world.size(), R"("world_size": 131072)");
  std::ofstream(path) << profile;
  restart_heap_use();
  const auto done = require_value(exchange::import_traces({path}, folder.path() + "/out"));
  CHECK(done.world == 131072);
  CHECK(most_heap_used() <= 64 << 20);
}

}  // namespace
}  // namespace tessera::test
