// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <fstream>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

std::vector<std::string> golden(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/fsdp/" + name);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("fully_shard issues the operations of FSDP2 in the same order, line by line",
          "[shard][golden]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}});
  REQUIRE(engine.ok());
  const Status status = run_training_step(**engine, model, {});
  INFO(status.message());
  REQUIRE(status.ok());

  const auto expected = golden("fully_shard_g3.txt");
  const auto actual = to_fsdp_notation(recording);
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    INFO("line " << i);
    REQUIRE(actual[i] == expected[i]);
  }
  CHECK(actual.size() == expected.size());
}

}  // namespace
}  // namespace tessera
