// SPDX-License-Identifier: Apache-2.0
// Modules registered under two names: read, counted once, wrapped under all names or refused.
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

// Two towers; b.shared is the same object as a.shared.
std::string towers(const std::string& more) {
  return R"({"tessera_model": 1, "name": "towers", "root": {"class": "Net", "modules": [
    {"name": "a", "class": "Tower", "modules": [
      {"name": "shared", "class": "Encoder", "modules": [
        {"name": "linear", "class": "Linear", "parameters": [{"name": "weight", "shape": [5, 6]}]}
      ]}]},
    {"name": "b", "class": "Tower", "modules": [
      {"name": "own", "class": "Linear", "parameters": [{"name": "weight", "shape": [5, 6]}]}
    ]}]}, )" +
         more + "}";
}

Model towers() {
  auto model = parse_model(towers(R"("module_aliases": [["a.shared", "b.shared"]])"), "towers");
  INFO(model.status().message());
  REQUIRE(model.ok());
  return std::move(model).value();
}

}  // namespace

TEST_CASE("paths through an alias find the module and its parameters", "[wrap][alias]") {
  const Model model = towers();
  CHECK(model.find_module("b.shared") == model.find_module("a.shared"));
  CHECK(model.find_module("b.shared.linear") == model.find_module("a.shared.linear"));
  CHECK(model.find_parameter("b.shared.linear.weight") == ParameterId{0});
  CHECK_FALSE(model.find_module("b.sharedx").valid());
  CHECK(model.parameter_count() == Numel{60});
}

TEST_CASE("aliases of aliases are resolved", "[wrap][alias]") {
  const auto model =
      parse_model(towers(R"("module_aliases": [["b.own", "a.shared.own"], ["b.shared.own", "again"],
                                   ["a.shared", "b.shared"]])"),
                  "towers");
  REQUIRE_FALSE(model.ok());  // b.shared is not there yet
  const auto ordered = parse_model(
      towers(R"("module_aliases": [["a.shared", "b.shared"], ["b.own", "b.shared.own"]])"),
      "towers");
  INFO(ordered.status().message());
  REQUIRE(ordered.ok());
  CHECK(ordered->module_aliases[1].path == "a.shared.own");
  CHECK(ordered->find_parameter("b.shared.own.weight") == ordered->find_parameter("b.own.weight"));
}

TEST_CASE("bad aliases are refused, naming file and pair", "[wrap][alias][errors]") {
  const std::pair<const char*, const char*> bad[] = {
      {R"("a")", "module_aliases must be a list of pairs"},
      {R"([["a"]])", "module_aliases[0] must be a pair of module paths"},
      {R"([["a", 5]])", "module_aliases[0] must be a pair of module paths"},
      {R"([["a.shard", "c"]])", "module_aliases[0] names \"a.shard\", which is no module, did you"},
      {R"([["a", "x.y"]])", "module_aliases[0] names \"x\", which is no module"},
      {R"([["a", "b."]])", "which ends without a name"},
      {R"([["a", "b"]])", "registers \"b\" again"},
      {R"([["a", "b.own.weight"]])", "registers \"b.own.weight\" again"},
      {R"([["a", "c"], ["b", "c"]])", "module_aliases[1] registers \"c\" again"},
      {R"([["a", "a.x"]])", "puts \"a\" inside itself, as \"a.x\""},
      {R"([["", "x"]])", "inside itself"},
      {R"([["a", "b.x"], ["b", "a.shared.x"]])", "module_aliases[1] puts \"b\" inside itself"},
  };
  for (const auto& [list, part] : bad) {
    INFO(list);
    const auto model = parse_model(towers(std::string("\"module_aliases\": ") + list), "t.json");
    REQUIRE_FALSE(model.ok());
    INFO(model.status().message());
    CHECK(model.status().message().starts_with("t.json: "));
    CHECK(model.status().message().find(part) != std::string::npos);
  }
}

TEST_CASE("chains of aliases are bounded in depth", "[wrap][alias][errors]") {
  std::string modules;
  std::string aliases;
  for (int k = 0; k < 300; ++k) {
    modules +=
        std::string(k ? "," : "") + R"({"class": "M", "name": "m)" + std::to_string(k) + "\"}";
    if (k == 0) continue;
    aliases += std::string(k > 1 ? "," : "") + "[\"m" + std::to_string(k) + "\", \"m" +
               std::to_string(k - 1) + ".x\"]";
  }
  const auto model =
      parse_model(R"({"tessera_model": 1, "name": "chain", "root": {"class": "Net", "modules": [)" +
                      modules + R"(]}, "module_aliases": [)" + aliases + "]}",
                  "chain.json");
  REQUIRE_FALSE(model.ok());
  CHECK(model.status().message().find("nests deeper than 200") != std::string::npos);
}

TEST_CASE("a unit replaces all names of its module", "[wrap][alias]") {
  const Model model = towers();
  for (const WrapPolicy& policy :
       {WrapPolicy(ClassWrap{{"Encoder"}}), WrapPolicy(TransformerWrap{{"Encoder"}})}) {
    const WrapPlan plan = plan_of(model, policy);
    CHECK(units(model, plan) == Names{"a.shared"});
    CHECK(plan.units[1].aliases == Names{"b.shared"});
    CHECK(parameter_names(model, plan.units[1]) == Names{"a.shared.linear.weight"});
    CHECK(parameter_names(model, plan.units[0]) == Names{"b.own.weight"});
  }
}

TEST_CASE("by hand, the second name is the same unit", "[wrap][alias]") {
  const Model model = towers();
  WrapContext context(model);
  const auto scope = context.enable_wrap();
  REQUIRE(context.wrap("b.shared").ok());
  CHECK_FALSE(context.wrap("a.shared").ok());
  const auto plan = context.plan({});
  REQUIRE(plan.ok());
  CHECK(units(model, *plan) == Names{"a.shared"});
}

TEST_CASE("a module under two names counts in every ancestor, and once", "[wrap][alias]") {
  const Model model = towers();
  // a has 30 elements, b and the root 60: at 31 it is b that becomes a unit, without a.
  CHECK(units(model, plan_of(model, SizeWrap{Numel{30}})) == Names{"a.shared.linear", "b.own"});
  check_refused(plan_wrapping(model, SizeWrap{Numel{31}}, {}), "one module");  // b alone
  CHECK(units(model, plan_of(model, SizeWrap{Numel{61}})).empty());
}

TEST_CASE("a module half inside a unit is refused, naming both names", "[wrap][alias][errors]") {
  const Model model = towers();
  const LambdaWrap only_a{[](const Module& module) { return module.path == "a"; }};
  check_refused(plan_wrapping(model, only_a, {}), "a.shared and b.shared are one module");
  // Inside one unit, or ignored, it is fine.
  CHECK(plan_of(model, ClassWrap{{"Net"}}).units.size() == 1);
  CHECK(units(model, plan_of(model, only_a, {.ignored_modules = {"b.shared"}})) == Names{"a"});
}

}  // namespace tessera::test
