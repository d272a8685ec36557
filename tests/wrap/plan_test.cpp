// SPDX-License-Identifier: Apache-2.0
// What every plan must satisfy, whoever chose its units.
#include "engine/wrap/unit_assignment.h"
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

// Net(embedding, blocks.0, blocks.1, head), the head's weight tied to the embedding's.
Model tied() {
  TreeBuilder tree("tied", "Net", DType::float32);
  tree.leaf("embedding", "Embedding", {5, 6});
  linear30(tree, "body");
  tree.open("head", "Head");
  tree.parameter("bias", {6});
  tree.close();
  tree.model().ties.push_back({"head.weight", ParameterId{0}});
  return tree.take();
}

WrapPolicy only(const std::string& path) {
  return LambdaWrap{[path](const Module& module) { return module.path == path; }};
}

Model half_frozen() {
  Model model = nested_sequential();
  parameter_named(model, "2.0.weight").requires_grad = false;
  parameter_named(model, "2.0.bias").requires_grad = false;
  return model;
}

}  // namespace

TEST_CASE("units manage what no unit inside them manages", "[wrap]") {
  const Model model = nested_sequential();
  const WrapPlan plan = plan_of(model, ClassWrap{{"Sequential"}});
  REQUIRE(plan.units.size() == 2);
  CHECK(parameter_names(model, plan.units[0]) == Names{"0.weight", "0.bias", "1.weight", "1.bias"});
  CHECK(parameter_names(model, plan.units[1]) ==
        Names{"2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias"});
}

TEST_CASE("a tied tensor lies in the unit that contains all its users", "[wrap]") {
  const Model model = tied();
  const WrapPlan plan = plan_of(model, only("body"));
  CHECK(parameter_names(model, plan.units[0]) == Names{"embedding.weight", "head.bias"});
}

TEST_CASE("a tie across units is refused, naming both names", "[wrap][errors]") {
  const Model model = tied();
  for (const char* path : {"embedding", "head"}) {
    const auto plan = plan_wrapping(model, only(path), {});
    check_refused(plan, "embedding.weight");
    check_refused(plan, "head.weight");
    check_refused(plan, "leave both to the root");
  }
  CHECK(plan_of(model, only("head"), {.ignored_states = {"embedding.weight"}}).units.size() == 2);
}

TEST_CASE("a unit with trained and frozen parameters is warned about", "[wrap]") {
  const Model model = half_frozen();
  const WrapPlan plan = plan_of(model, ClassWrap{{"Sequential"}});
  check_warning(plan, "unit \"2\" mixes trained (2.1.weight) and frozen (2.0.weight)");
  check_warning(plan, "60 elements before they are reduced instead of 30");
  CHECK(plan_of(model, AlwaysWrap{}).warnings.empty());
}

TEST_CASE("a flat parameter with trained and frozen parts is refused", "[wrap][errors]") {
  const Model model = half_frozen();
  const WrapOptions flat{.uniform_requires_grad = true};
  check_refused(plan_wrapping(model, ClassWrap{{"Sequential"}}, flat), "unit \"2\" mixes");
  check_refused(plan_wrapping(model, ClassWrap{{"Sequential"}}, flat), "as a whole");
  check_refused(plan_wrapping(model, only("0"), flat), "unit of the root mixes");
  CHECK(plan_of(model, AlwaysWrap{}, flat).warnings.empty());
  WrapOptions ignored = flat;
  ignored.ignored_modules = {"2.0"};
  CHECK(plan_of(model, ClassWrap{{"Sequential"}}, ignored).warnings.empty());
}

TEST_CASE("a model with an earlier plan is not wrapped again", "[wrap][errors]") {
  const Model model = nested_sequential();
  const WrapPlan first = plan_of(model, only("2"));
  check_refused(plan_wrapping(model, AlwaysWrap{}, {.earlier = &first}),
                "\"2\" is a unit of an earlier plan");
  const WrapPlan root = plan_of(model, ClassWrap{{"Sequential"}}, {.ignored_modules = {"2"}});
  check_refused(plan_wrapping(model, AlwaysWrap{}, {.earlier = &root}),
                "the root is a unit of an earlier plan");
  const WrapPlan empty;
  CHECK(plan_wrapping(model, AlwaysWrap{}, {.earlier = &empty}).ok());
}

TEST_CASE("overrides are laid over each other field by field", "[wrap]") {
  const UnitOverrides base{.mixed_precision = true, .reshard_after_forward = true};
  CHECK(overridden(base, {}) == base);
  CHECK(overridden({}, base) == base);
  CHECK(overridden(base, {.mixed_precision = false}) ==
        UnitOverrides{.mixed_precision = false, .reshard_after_forward = true});
  CHECK(UnitOverrides{}.empty());
  CHECK_FALSE(base.empty());
}

TEST_CASE("assign_units takes ids and ignored parameters", "[wrap]") {
  const Model model = nested_sequential();
  std::vector<bool> ignored(model.parameters.size(), false);
  ignored[0] = true;
  const auto assigned = assign_units(model, {model.find_module("2")}, ignored);
  REQUIRE(assigned.ok());
  CHECK(assigned->units.size() == 2);
  CHECK(assigned->unit_of_parameter[0] == UnitAssignment::no_unit);
  CHECK(assigned->unit_of_parameter[1] == 0);
  CHECK(assigned->units[0].parameters.size() == 3);
}

}  // namespace tessera::test
