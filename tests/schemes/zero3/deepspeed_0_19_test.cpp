// SPDX-License-Identifier: Apache-2.0
// The policy compatible-0.19 against DeepSpeed 0.19.8 on random module trees, as recorded by
// tests/golden/deepspeed_0_19/record.py.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"

namespace tessera::test {
namespace {

Zero3Options recorded_options_of(const nlohmann::json& o) {
  return {.policy = Zero3Policy::compatible_0_19,
          .prefetch_bucket = Numel{o["prefetch_bucket"]},
          .max_reuse_distance = Numel{o["max_reuse_distance"]},
          .max_live_parameters = Numel{o["max_live_parameters"]},
          .persistence_threshold = Numel{o["persistence_threshold"]},
          .reduce_bucket = Numel{o["reduce_bucket"]},
          .sub_group_size = Numel{o["sub_group_size"]}};
}

std::vector<TrainingPass> recorded_passes(const nlohmann::json& passes) {
  using Kind = TrainingPass::Kind;
  const std::map<std::string, Kind> kinds = {{"train", Kind::train},
                                             {"evaluate", Kind::evaluate},
                                             {"forward", Kind::forward},
                                             {"step", Kind::step}};
  std::vector<TrainingPass> out;
  for (const auto& pass : passes) out.push_back({kinds.at(pass[0]), pass[1]});
  return out;
}

TEST_CASE("compatible-0.19 does what DeepSpeed 0.19.8 did with random trees, line by line",
          "[zero3][golden]") {
  std::size_t lines = 0;
  for (int seed = 0; seed < 30; ++seed) {
    const std::string path = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/deepspeed_0_19/" +
                             std::to_string(seed) + ".json";
    INFO(path);
    std::ifstream file(path);
    const auto run = nlohmann::json::parse(file);
    const auto model = parse_model(run["tree"].dump(), "tree");
    REQUIRE(model.ok());
    Recording recording;
    const auto runtime = make_recording_runtime(run["ranks"].get<Rank>(), recording);
    const auto engine = zero3(*runtime, *model, recorded_options_of(run["options"]));
    REQUIRE(engine.ok());
    const Status status =
        run_training_step(**engine, *model, {.passes = recorded_passes(run["passes"])});
    INFO(status.message());
    const auto actual = to_deepspeed_notation(recording, (*engine)->parameters());
    const auto expected = run["lines"].get<std::vector<std::string>>();
    for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
      INFO("line " << i + 1);
      REQUIRE(actual[i] == expected[i]);
    }
    CHECK(status.ok());
    CHECK(actual.size() == expected.size());
    lines += actual.size();
  }
  CHECK(lines > 5000);
}

}  // namespace
}  // namespace tessera::test
