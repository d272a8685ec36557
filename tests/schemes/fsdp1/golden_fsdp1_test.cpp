// SPDX-License-Identifier: Apache-2.0
// The order of operations of FSDP1 against runs recorded with PyTorch.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "tessera/fsdp1.h"
#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

struct Recorded {
  const char* file;
  Fsdp1Options options;
};

std::vector<std::string> recorded(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/fsdp/" + name);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::regex_replace(line, std::regex("^ *[0-9]+ | +$"), ""));
  }
  return lines;
}

TEST_CASE("fsdp1 issues the operations of recorded PyTorch runs in the same order, line by line",
          "[shard][golden]") {
  using S = ShardingStrategy;
  const auto [file, options] = GENERATE(values<Recorded>(
      {{"fsdp1_FULL_SHARD_BACKWARD_PRE_0_1_3_3_new.txt", {}},
       {"fsdp1_FULL_SHARD_NONE_0_1_3_3_new.txt", {.backward_prefetch = BackwardPrefetch::none}},
       {"fsdp1_SHARD_GRAD_OP_BACKWARD_PRE_0_1_3_3_new.txt", {.strategy = S::shard_grad_op}},
       {"fsdp1_NO_SHARD_BACKWARD_PRE_0_1_3_3_new.txt", {.strategy = S::no_shard}}}));
  INFO(file);
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  Fsdp1Options with_units = options;
  with_units.units = {"L1", "L2", "L3"};
  with_units.torch_order = true;
  auto engine = fsdp1(*runtime, model, with_units);
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) {
    const Status status = run_training_step(**engine, model, {});
    INFO(status.message());
    REQUIRE(status.ok());
  }
  const auto expected = recorded(file);
  const auto units = (*engine)->units();
  const auto actual = to_fsdp1_notation(recording, units);
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    INFO("line " << i);
    REQUIRE(actual[i] == expected[i]);
  }
  CHECK(actual.size() == expected.size());
}

}  // namespace
}  // namespace tessera
