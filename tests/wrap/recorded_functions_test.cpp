// SPDX-License-Identifier: Apache-2.0
// Functions as policies against _recursive_wrap of torch 2.15, as recorded by
// tests/golden/torch_2_15/groups.py.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

TEST_CASE("functions wrap what they wrapped in torch 2.15", "[wrap][golden]") {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/torch_2_15/groups.json");
  int runs = 0;
  for (const nlohmann::json& run : nlohmann::json::parse(file)) {
    if (run["kind"] != "wrap") continue;
    ++runs;
    INFO("seed " << run["seed"]);
    const auto model = parse_model(run["tree"].dump(), "tree");
    REQUIRE(model.ok());
    const std::size_t below = run["below"];
    const Numel least{run["least"].get<std::int64_t>()};
    WrapPolicy policy = FunctionWrap{[&](const Module& module, bool recurse, Numel nonwrapped) {
      return recurse ? module.path.size() % below != 1 : nonwrapped >= least;
    }};
    if (run["lambda"]) {
      policy = LambdaWrap{[&](const Module& module) { return module.path.size() % below == 1; }};
    }
    std::vector<std::string> expected = run["found"][0];
    std::vector<std::string> found = units(*model, test::plan_of(*model, policy));
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
  }
  CHECK(runs >= 40);
}

}  // namespace
}  // namespace tessera::test
