// SPDX-License-Identifier: Apache-2.0
// Plans as people write them in files.
#include <fmt/format.h>

#include "tests/wrap/trees.h"

namespace tessera {
namespace {

std::string refusal(const std::string& text) {
  const auto plan = read_wrap_plan(text, "plan.json", test::nested_sequential());
  REQUIRE(!plan.ok());
  CHECK(plan.status().code() == Code::invalid_argument);
  return plan.status().message();
}

TEST_CASE("a plan in a file names modules by path, pattern and class", "[wrap]") {
  const Model model = test::nested_sequential();
  const auto plan = read_wrap_plan(R"({"tessera_plan": 1, // comments are allowed
    "units": [{"class": "Linear", "param_dtype": "bfloat16", "reshard_after_forward": false},
              {"modules": "2.*", "shard_group": 2},
              {"modules": "0", "param_dtype": "float32", "offload_params": true},
              {"modules": "", "reduce_dtype": "float32", "reshard_group": 4}]})",
                                   "plan.json", model);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  REQUIRE(plan->units.size() == 5);
  CHECK(plan->units[0].overrides ==
        UnitOverrides{.reduce_dtype = DType::float32, .reshard_group = 4});
  CHECK(plan->units[1].overrides == UnitOverrides{.reshard_after_forward = false,
                                                  .offload_params = true,
                                                  .param_dtype = DType::float32});
  CHECK(plan->units[2].overrides ==
        UnitOverrides{.reshard_after_forward = false, .param_dtype = DType::bfloat16});
  for (const std::size_t below : {3U, 4U}) {
    CHECK(plan->units[below].overrides == UnitOverrides{.reshard_after_forward = false,
                                                        .param_dtype = DType::bfloat16,
                                                        .shard_group = 2});
  }
}

TEST_CASE("a plan that is written is the plan that is read again", "[wrap]") {
  const Model model = test::nested_sequential();
  const auto plan = plan_wrapping(model, CustomWrap{[](const Module& m) -> WrapChoice {
                                    if (m.path == "2") return UnitOverrides{.shard_group = 1};
                                    return m.path == "1";
                                  }},
                                  {.root = {.mixed_precision = true, .param_dtype = DType::float16},
                                   .ignored_states = {"0.bias"}});
  REQUIRE(plan.ok());
  const auto again = read_wrap_plan(to_json(*plan, model), "plan.json", model);
  INFO(again.status().message());
  REQUIRE(again.ok());
  REQUIRE(again->units.size() == plan->units.size());
  for (std::size_t u = 0; u < plan->units.size(); ++u) {
    CHECK(again->units[u].module == plan->units[u].module);
    CHECK(again->units[u].overrides == plan->units[u].overrides);
    CHECK(again->units[u].parameters == plan->units[u].parameters);
  }
  CHECK(again->ignored == plan->ignored);
}

TEST_CASE("of resharding a later entry says more than an earlier one", "[wrap]") {
  const Model model = test::nested_sequential();
  const auto settings = [&](const std::string& first, const std::string& second) {
    const auto plan = read_wrap_plan(R"({"tessera_plan": 1, "units": [{"class": "Linear", )" +
                                         first + R"(}, {"modules": "0", )" + second + "}]}",
                                     "plan.json", model);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return plan->units[1].overrides;
  };
  const std::string keeps = R"("reshard_after_forward": false)";
  const std::string group = R"("reshard_group": 2)";
  CHECK(settings(keeps, group) == UnitOverrides{.reshard_group = 2});
  CHECK(settings(group, keeps) == UnitOverrides{.reshard_after_forward = false});
}

TEST_CASE("a plan that cannot be meant is refused by the entry and the key", "[wrap]") {
  const auto units = [](const std::string& entry) {
    return R"({"tessera_plan": 1, "units": [)" + entry + "]}";
  };
  CHECK(refusal("[]").find("begins with \"tessera_plan\": 1") != std::string::npos);
  CHECK(refusal(R"({"tessera_plan": 2, "units": []})").find("only 1 is known") !=
        std::string::npos);
  CHECK(refusal(R"({"tessera_plan": 1})").find("units must be a list") != std::string::npos);
  CHECK(refusal(R"({"tessera_plan": 1, "unit": []})").find("unit") != std::string::npos);
  CHECK(refusal(units(R"({"modules": "7"})")) ==
        "plan.json: units[0]: path \"7\" is no module of nested");
  CHECK(refusal(units(R"({"class": "Conv2d"})")).find("class \"Conv2d\"") != std::string::npos);
  CHECK(refusal(units(R"({"modules": "0", "class": "Linear"})")).find("either") !=
        std::string::npos);
  CHECK(refusal(units(R"({"class": "Linear"}, {"modules": "0"}, {"class": "Linear"})")) ==
        "plan.json: units[2]: class \"Linear\" is that of units[0]: say in one entry what is set "
        "for it");
  CHECK(refusal(units(R"({"modules": "0", "reshard_after_forward": false, "reshard_group": 2})"))
            .find("units[0]: reshard_after_forward false and reshard_group contradict") !=
        std::string::npos);
  CHECK(refusal(units("3")).find("units[0]: must be an object") != std::string::npos);
  CHECK(refusal(units(R"({"modules": "0", "param_dtyp": "float32"})"))
            .find("did you mean \"param_dtype\"?") != std::string::npos);
  CHECK(refusal(units(R"({"modules": "0", "shard_group": -1})"))
            .find("shard_group must be a number of ranks, 0 or more, found \"-1\"") !=
        std::string::npos);
  CHECK(refusal(units(R"({"modules": "0", "param_dtype": "int8"})")).find("param_dtype must be") !=
        std::string::npos);
  CHECK(refusal(units(R"({"modules": "0", "offload_params": 1})")).find("true or false") !=
        std::string::npos);
  CHECK(refusal(R"({"tessera_plan": 1, "units": [], "ignored_modules": "0"})")
            .find("ignored_modules must be a list of strings") != std::string::npos);
}

TEST_CASE("a plan whose entries look at the same modules again and again is refused",
          "[wrap][errors]") {
  std::string tree = R"({"tessera_model": 1, "name": "wide",
                         "root": {"class": "Net", "modules": [)";
  for (int m = 0; m < 10'100; ++m) {
    tree += fmt::format(R"({}{{"name": "m{}", "class": "Linear",
                            "parameters": [{{"name": "weight", "shape": [1]}}]}})",
                        m == 0 ? "" : ",", m);
  }
  const auto model = parse_model(tree + "]}}", "wide.json");
  REQUIRE(model.ok());
  std::string text = R"({"tessera_plan": 1, "units": [)";
  for (int k = 0; k < 1000; ++k) {
    text += fmt::format(R"({}{{"modules": "**{}*"}})", k == 0 ? "" : ",", k);
  }
  const auto plan = read_wrap_plan(text + "]}", "plan.json", *model);
  INFO(plan.status().message());
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().message().find("look at more than 10000000 modules") != std::string::npos);
}

}  // namespace
}  // namespace tessera
