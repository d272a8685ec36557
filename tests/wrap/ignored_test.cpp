// SPDX-License-Identifier: Apache-2.0
#include "tests/wrap/trees.h"

namespace tessera::test {

TEST_CASE("an ignored module is no unit, manages nothing and counts nowhere", "[wrap]") {
  const Model model = nested_sequential();
  for (const WrapOptions& options :
       {WrapOptions{.ignored_modules = {"2"}}, WrapOptions{.ignored_states = {"2"}}}) {
    const WrapPlan plan = plan_of(model, AlwaysWrap{}, options);
    CHECK(units(model, plan) == Names{"0", "1"});
    CHECK(plan.ignored.size() == 4);
    CHECK(plan.warnings.empty());
  }
  CHECK(units(model, plan_of(model, SizeWrap{Numel{31}}, {.ignored_modules = {"2.0"}})).empty());
  CHECK(units(model, plan_of(model, ClassWrap{{"Linear"}}, {.ignored_modules = {"0", "2"}})) ==
        Names{"1"});
}

TEST_CASE("custom policies are not asked about ignored modules", "[wrap]") {
  const Model model = nested_sequential();
  Names asked;
  const CustomWrap policy{[&asked](const Module& module) -> WrapChoice {
    asked.push_back(module.path);
    return true;
  }};
  plan_of(model, policy, {.ignored_modules = {"2"}});
  CHECK(asked == Names{"", "0", "1"});
}

TEST_CASE("ignored modules are no units of full precision", "[wrap]") {
  TreeBuilder tree("norms", "Net", DType::float32);
  tree.leaf("a", "BatchNorm1d", {5});
  tree.leaf("b", "BatchNorm1d", {5});
  const Model model = tree.take();
  const WrapOptions options{.root = {.mixed_precision = true}, .ignored_modules = {"b"}};
  const CustomWrap none{[](const Module&) -> WrapChoice { return false; }};
  CHECK(units(model, plan_of(model, none, options)) == Names{"a"});
  CHECK(units(model, plan_of(model, LambdaWrap{[](const Module&) { return false; }}, options)) ==
        Names{"a"});
}

TEST_CASE("an ignored parameter leaves its unit and the counts", "[wrap]") {
  const Model model = nested_sequential();
  const WrapPlan plan = plan_of(model, AlwaysWrap{}, {.ignored_states = {"0.weight"}});
  CHECK(parameter_names(model, unit_at(model, plan, "0")) == Names{"0.bias"});
  REQUIRE(plan.ignored.size() == 1);
  CHECK(model.parameter(plan.ignored[0]).name == "0.weight");
  CHECK(units(model, plan_of(model, SizeWrap{Numel{30}}, {.ignored_states = {"0.weight"}})) ==
        Names{"1", "2.0", "2.1"});
}

TEST_CASE("a tied parameter is ignored under all its names", "[wrap]") {
  TreeBuilder tree("tied", "Net", DType::float32);
  tree.leaf("embedding", "Embedding", {4, 4});
  tree.open("head", "Linear");
  tree.close();
  tree.model().ties.push_back({"head.weight", ParameterId{0}});
  const Model model = tree.take();
  for (const WrapOptions& options :
       {WrapOptions{.ignored_states = {"head.weight"}}, WrapOptions{.ignored_modules = {"head"}}}) {
    CHECK(plan_of(model, AlwaysWrap{}, options).ignored.size() == 1);
  }
}

TEST_CASE("ignoring the root is warned about, not refused", "[wrap]") {
  const Model model = nested_sequential();
  const WrapPlan plan = plan_of(model, AlwaysWrap{}, {.ignored_modules = {""}});
  CHECK(plan.units.size() == 1);
  CHECK(plan.units[0].parameters.empty());
  CHECK(plan.ignored.size() == model.parameters.size());
  REQUIRE_FALSE(plan.warnings.empty());
  CHECK(plan.warnings[0].find("the root is ignored") != std::string::npos);
}

TEST_CASE("what cannot be ignored is refused by name", "[wrap][errors]") {
  const Model model = nested_sequential();
  const auto refused = [&](const WrapOptions& options, const std::string& hint) {
    check_refused(plan_wrapping(model, AlwaysWrap{}, options), hint);
  };
  refused({.ignored_modules = {"0"}, .ignored_states = {"1"}}, "not both");
  refused({.ignored_states = {"0", "1.weight"}}, "the module \"0\" and the parameter \"1.weight\"");
  refused({.ignored_states = {"1.weight", "0"}}, "the parameter \"1.weight\" and the module \"0\"");
  refused({.ignored_modules = {"9.9.9"}}, "\"9.9.9\", which is no module of nested");
  refused({.ignored_modules = {"0.weight"}}, "\"0.weight\", which is a parameter");
  refused({.ignored_states = {"0.weigth"}}, "did you mean \"0.weight\"?");
}

}  // namespace tessera::test
