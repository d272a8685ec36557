// SPDX-License-Identifier: Apache-2.0
// A container that is called twice in a row is gathered, freed and recomputed twice.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/require_ok.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

// Two calls of blk, or one call that runs a and b twice.
std::string tree(bool twice) {
  const std::string again = twice ? R"({"again": "blk"}, )" : "";
  return R"({"tessera_model": 1, "name": "albert", "dtype": "float32", "root": {"class": "Net",
      "modules": [{"name": "blk", "class": "Block", "modules": [
        {"name": "a", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]},
        {"name": "b", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]}]}]},
      "units": ["blk"], "input_requires_grad": true,
      "forward": ["blk.a", "blk.b", )" +
         again + R"("blk.a", "blk.b"]})";
}

// The lines of one step that begin so.
std::vector<std::string> steps_of(const Scheme& scheme, bool twice, const std::string& word,
                                  bool recomputes = false) {
  const Model model = test::require_value(parse_model(tree(twice), "tree"));
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = test::require_value(make_engine(*runtime, model, scheme));
  TrainingOptions training;
  if (recomputes) training.checkpointing = ActivationCheckpointing::full;
  for (int step = 0; step < 2; ++step) {
    test::require_ok(run_training_step(*engine, model, training));
    if (step == 0) recording.records.clear();
  }
  std::vector<std::string> found;
  for (const std::string& line : engine->notation(recording)) {
    if (line.find(word) != std::string::npos) found.push_back(line);
  }
  return found;
}

TEST_CASE("a container that runs twice is two visits", "[base][order]") {
  const Scheme fsdp = FullyShardOptions{.reshard_after_forward = ReshardAfterForward::always};
  const Scheme zero = Zero3Options{.policy = Zero3Policy::compatible};
  // In forward once and twice; backward keeps a unit gathered until its last call is through.
  CHECK(steps_of(fsdp, false, "ALL_GATHER blk").size() == 2);
  CHECK(steps_of(fsdp, true, "ALL_GATHER blk").size() == 3);
  CHECK(steps_of(fsdp, true, "REDUCE_SCATTER blk").size() == 1);
  CHECK(steps_of(zero, true, "FETCH blk ").size() ==
        2 * steps_of(zero, false, "FETCH blk ").size());
  CHECK(steps_of(zero, true, "FETCH blk.a").size() == steps_of(zero, false, "FETCH blk.a").size());
}

TEST_CASE("every scheme trains through containers that run twice", "[base][order]") {
  const Model model = test::require_value(parse_model(tree(true), "tree"));
  for (const std::string& name : scheme_names()) {
    for (const bool recomputes : {false, true}) {
      INFO(name << (recomputes ? ", recomputing" : ""));
      const test::TestCosts costs;
      auto runtime =
          test::require_value(sim::LockstepRuntime::create({.world_size = 2, .cost = &costs}));
      Scheme scheme = *scheme_named(name);
      if (name.starts_with("hybrid")) {
        test::require_ok(set_option(scheme, "shard_group", std::int64_t{2}));
      }
      auto engine = test::require_value(make_engine(*runtime, model, scheme));
      TrainingOptions training;
      if (recomputes) training.checkpointing = ActivationCheckpointing::full;
      for (int step = 0; step < 3; ++step) {
        test::require_ok(run_training_step(*engine, model, training));
      }
      test::require_ok(runtime->finish());
    }
  }
}

TEST_CASE("a container begins again between two of its own entries alone", "[base][model]") {
  const auto refused = [](const std::string& forward) {
    std::string text = tree(false);
    text = text.substr(0, text.find("\"forward\"")) + "\"forward\": " + forward + "}";
    return parse_model(text, "tree").status().message();
  };
  CHECK(refused(R"(["blk.a", "blk.b", {"again": "blk"}])").find("not both in that module") !=
        std::string::npos);
  CHECK(refused(R"([{"again": "blk"}, "blk.a", "blk.b"])").find("not both in that module") !=
        std::string::npos);
  CHECK(refused(R"(["blk.a", {"again": "blk.a"}, "blk.a"])").find("not both in that module") !=
        std::string::npos);
  CHECK(refused(R"(["blk.a", {"agein": "blk"}, "blk.b"])").find("must be a list of strings") !=
        std::string::npos);
  CHECK(refused(R"(["blk.a", {"again": "blok"}, "blk.b"])").find("did you mean \"blk\"") !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera
