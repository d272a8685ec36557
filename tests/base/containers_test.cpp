// SPDX-License-Identifier: Apache-2.0
// Modules that have parameters and modules of their own, parameters without elements, and lists of
// modules, in every scheme.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/base/every_scheme.h"
#include "tests/parsed_model.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

using test::EveryScheme;

// A root with a scale, a block with another, and `odd` in its place for further parameters.
Model nested(const std::string& odd = "") {
  return test::parsed(R"({"tessera_model":1,"name":"nested","root":{"class":"Net",
      "parameters":[{"name":"scale","shape":[4]}],"modules":[
      {"name":"in","class":"Linear","parameters":[{"name":"weight","shape":[4,4]}]},
      {"name":"block","class":"Block","parameters":[{"name":"scale","shape":[6]}],"modules":[
        {"name":"up","class":"Linear","parameters":[{"name":"weight","shape":[8,4]})" +
                      odd + R"(]},
        {"name":"down","class":"Linear","parameters":[{"name":"weight","shape":[4,8]}]}]}]},
      "units":["block"]})");
}

std::vector<std::string> warnings_of(const Model& model, const Scheme& scheme) {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto engine = make_engine(*runtime, model, scheme);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  return (*engine)->warnings();
}

TEST_CASE("parameters of containers get gradients", "[passes][schemes]") {
  const Model model = nested();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto engine = zero3(*runtime, model, {});
  REQUIRE(engine.ok());
  TrainingSteps steps(**engine, model);
  test::require_ok(steps.run({}));
  std::vector<std::string> ready;
  for (const std::string& line : to_deepspeed_notation(recording, (*engine)->parameters())) {
    const auto at = line.find("GRAD_READY ");
    if (at != std::string::npos) ready.push_back(line.substr(at + 11));
  }
  // Each where the backward pass of its module ends.
  const std::vector<std::string> expected = {"block.down.weight", "block.up.weight", "block.scale",
                                             "in.weight", "scale"};
  CHECK(ready == expected);
}

TEST_CASE("a parameter without elements is no trouble to any scheme", "[schemes]") {
  const Model model = nested(R"(,{"name":"none","shape":[0,4]})");
  for (int k = 0; k < EveryScheme::count; ++k) {
    EveryScheme made(k, 3, model);
    INFO(made.name);
    TrainingSteps steps(*made.engine, model);
    test::require_ok(steps.run({}));
    test::require_ok(steps.run({}));
    CHECK(made.values(model.find_parameter("block.up.none")).empty());
  }
}

TEST_CASE("a list of modules is no unit: FSDP2 refuses it, FSDP1 warns", "[shard][errors]") {
  const Model model = test::parsed(R"({"tessera_model":1,"name":"lists","root":{"class":"Net",
      "modules":[{"name":"blocks","class":"ModuleList","modules":[
        {"name":"0","class":"Linear","parameters":[{"name":"weight","shape":[4,4]}]},
        {"name":"1","class":"Linear","parameters":[{"name":"weight","shape":[4,4]}]}]}]}})");
  CHECK(warnings_of(model, FullyShardOptions{}).empty());  // its members are units
  const auto warnings = warnings_of(model, Fsdp1Options{.units = {"blocks"}});
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
    return text.starts_with("unit blocks only lists modules");
  }));
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto refused = make_engine(*runtime, model, FullyShardOptions{.units = {"blocks"}});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message() ==
        "unit 'blocks' only lists modules and has no forward, before which it could be gathered: "
        "name its members as units");
}

}  // namespace
}  // namespace tessera
