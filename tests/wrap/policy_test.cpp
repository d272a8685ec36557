// SPDX-License-Identifier: Apache-2.0
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

// Net(stem Linear, blocks ModuleList(Block(Linear, BatchNorm2d), Block(...)), head Linear).
Model net() {
  TreeBuilder tree("net", "Net", DType::float32);
  linear30(tree, "stem");
  tree.open("blocks", "ModuleList");
  for (const char* name : {"0", "1"}) {
    tree.open(name, "Block");
    linear30(tree, "linear");
    tree.leaf("norm", "BatchNorm2d", {5});
    tree.close();
  }
  tree.close();
  linear30(tree, "head");
  return tree.take();
}

const Names blocks = {"blocks.0", "blocks.1"};

bool is_norm(const Module& module) { return module.path.ends_with("norm"); }

}  // namespace

TEST_CASE("always: every module is a unit, the root as ever", "[wrap]") {
  const Model model = net();
  const WrapPlan plan = plan_of(model, AlwaysWrap{});
  CHECK(plan.units.size() == model.modules.size());
  CHECK(plan.warnings.empty());
}

TEST_CASE("classes: both engines find the same modules", "[wrap]") {
  const Model model = net();
  CHECK(units(model, plan_of(model, ClassWrap{{"Block"}})) == blocks);
  CHECK(units(model, plan_of(model, TransformerWrap{{"Block"}})) == blocks);
  const Names nested = {"stem",     "blocks.0",        "blocks.0.linear",
                        "blocks.1", "blocks.1.linear", "head"};
  CHECK(units(model, plan_of(model, ClassWrap{{"Block", "Linear"}})) == nested);
  CHECK(units(model, plan_of(model, TransformerWrap{{"Block", "Linear"}})) == nested);
}

TEST_CASE("classes: the root's own class makes the root no second unit", "[wrap]") {
  const Model model = net();
  for (const WrapPolicy& policy : {WrapPolicy(ClassWrap{{"Net"}}), WrapPolicy(AlwaysWrap{})}) {
    const WrapPlan plan = plan_of(model, policy);
    CHECK(std::count_if(plan.units.begin(), plan.units.end(),
                        [](const WrapUnit& unit) { return unit.module == ModuleId{0}; }) == 1);
  }
  check_warning(plan_of(model, ClassWrap{{"Net"}}), "wraps no module below the root");
}

TEST_CASE("classes match those that derive from them", "[wrap]") {
  Model model = net();
  for (Module& module : model.modules) {
    if (module.class_name == "Block") module.class_name = "MyBlock";
    if (module.class_name == "BatchNorm2d") module.class_name = "MyNorm";
  }
  model.class_bases = {{"MyBlock", {"BaseBlock", "Block"}}, {"MyNorm", {"BatchNorm2d"}}};
  CHECK(units(model, plan_of(model, ClassWrap{{"Block"}})) == blocks);
  CHECK(units(model, plan_of(model, TransformerWrap{{"BaseBlock"}})) == blocks);
  const WrapOptions mixed{.root = {.mixed_precision = true}};
  CHECK(units(model, plan_of(model, ClassWrap{{"MyBlock"}}, mixed)) ==
        Names{"blocks.0", "blocks.0.norm", "blocks.1", "blocks.1.norm"});
  SizeWrap leaf{.min_num_params = Numel{1}, .force_leaf = {"Block"}, .exclude = {}};
  CHECK(units(model, plan_of(model, leaf)) == Names{"stem", "blocks", "head"});
  const auto plan =
      read_wrap_plan(R"({"tessera_plan": 1, "units": [{"class": "Block"}]})", "plan", model);
  REQUIRE(plan.ok());
  CHECK(units(model, *plan) == blocks);
  check_refused(plan_wrapping(model, ClassWrap{{"BaseBlok"}}, {}), "did you mean \"BaseBlock\"?");
}

TEST_CASE("a function sees the question and the elements that are left", "[wrap]") {
  const Model model = net();
  for (const std::int64_t least : {1, 30, 40, 70, 1000}) {
    const SizeWrap size{.min_num_params = Numel{least}};
    const FunctionWrap same{[&size](const Module& module, bool recurse, Numel nonwrapped) {
      const auto& not_these = recurse ? size.force_leaf : size.exclude;
      return nonwrapped >= size.min_num_params && !not_these.contains(module.class_name);
    }};
    CHECK(units(model, plan_of(model, same)) == units(model, plan_of(model, size)));
    CHECK(units(model, plan_of(model, AnyOfWrap{{same, ClassWrap{{"Block"}}}})) ==
          units(model, plan_of(model, AnyOfWrap{{size, ClassWrap{{"Block"}}}})));
  }
  std::vector<std::string> asked;
  const FunctionWrap told{[&](const Module& module, bool recurse, Numel nonwrapped) {
    asked.push_back(module.path + (recurse ? " below " : " wrap ") +
                    std::to_string(nonwrapped.value));
    return !module.path.starts_with("blocks.1") && (recurse || module.class_name != "ModuleList");
  }};
  CHECK(units(model, plan_of(model, told)) ==
        Names{"stem", "blocks.0", "blocks.0.linear", "blocks.0.norm", "head"});
  CHECK(Names(asked.begin(), asked.begin() + 4) ==
        Names{" below 130", "stem below 30", "stem wrap 30", "blocks below 70"});
  CHECK(std::count(asked.begin(), asked.end(), "blocks.0 wrap 0") == 1);
  CHECK(std::count(asked.begin(), asked.end(), "blocks wrap 35") == 1);  // what 1 has
  check_refused(plan_wrapping(model, FunctionWrap{}, {}), "FunctionWrap has no function");
}

TEST_CASE("a class that no module has is refused", "[wrap][errors]") {
  const Model model = net();
  check_refused(plan_wrapping(model, ClassWrap{{"Blok"}}, {}), "did you mean \"Block\"?");
  check_refused(plan_wrapping(model, TransformerWrap{{"Block", "GPT2Attention"}}, {}),
                "no module of class \"GPT2Attention\", it has BatchNorm2d, Block");
}

TEST_CASE("lambda: the function decides, and the walk goes everywhere", "[wrap]") {
  const Model model = net();
  CHECK(units(model, plan_of(model, LambdaWrap{is_norm})) ==
        Names{"blocks.0.norm", "blocks.1.norm"});
  check_refused(plan_wrapping(model, LambdaWrap{}, {}), "LambdaWrap has no function");
}

TEST_CASE("size: the defaults are torch's", "[wrap]") {
  CHECK(SizeWrap{}.min_num_params == Numel{100'000'000});
  CHECK(SizeWrap{}.force_leaf == std::set<std::string>{"MultiheadAttention"});
  CHECK(SizeWrap{}.exclude == std::set<std::string>{"ModuleList", "ModuleDict"});
}

TEST_CASE("size: what is too small to descend into is not wrapped either", "[wrap]") {
  const Model model = net();
  CHECK(units(model, plan_of(model, SizeWrap{Numel{35}})) == blocks);
  // The list holds 70 elements that nobody took, but lists are no units: they stay with the root.
  CHECK(units(model, plan_of(model, SizeWrap{Numel{36}})).empty());
  CHECK(units(model, plan_of(model, SizeWrap{Numel{36}, {}, {}})) == Names{"blocks"});
  check_warning(plan_of(model, SizeWrap{}), "wraps no module below the root");
}

TEST_CASE("custom: no, yes, and overrides of the root's settings", "[wrap]") {
  const Model model = net();
  int asked = 0;
  const CustomWrap policy{[&asked](const Module& module) -> WrapChoice {
    ++asked;
    if (module.path == "blocks.0") return true;
    if (module.path == "blocks.1") return UnitOverrides{.reshard_after_forward = false};
    if (module.path == "head") return UnitOverrides{};  // as torch's {}: no
    return false;
  }};
  WrapOptions options{.root = {.reshard_after_forward = true}};
  const WrapPlan plan = plan_of(model, policy, options);
  CHECK(asked == static_cast<int>(model.modules.size()));
  CHECK(units(model, plan) == blocks);
  CHECK(plan.units[0].overrides == options.root);
  CHECK(unit_at(model, plan, "blocks.0").overrides == options.root);
  CHECK(unit_at(model, plan, "blocks.1").overrides ==
        UnitOverrides{.reshard_after_forward = false});
  check_refused(plan_wrapping(model, CustomWrap{}, {}), "CustomWrap has no function");
}

TEST_CASE("any of: one yes is enough, to descend and to wrap", "[wrap]") {
  const Model model = net();
  CHECK(units(model, plan_of(model, AnyOfWrap{{ClassWrap{{"Block"}}, LambdaWrap{is_norm}}})) ==
        Names{"blocks.0", "blocks.0.norm", "blocks.1", "blocks.1.norm"});
  // The size policy alone would not descend into blocks of 35 elements.
  CHECK(units(model, plan_of(model, AnyOfWrap{{SizeWrap{Numel{1000}}, LambdaWrap{is_norm}}})) ==
        Names{"blocks.0.norm", "blocks.1.norm"});
}

TEST_CASE("any of: what it cannot ask is refused", "[wrap][errors]") {
  const Model model = net();
  const CustomWrap custom{[](const Module&) -> WrapChoice { return true; }};
  check_refused(plan_wrapping(model, AnyOfWrap{}, {}), "AnyOfWrap has no policies");
  check_refused(plan_wrapping(model, AnyOfWrap{{AlwaysWrap{}, custom}}, {}), "CustomWrap alone");
  check_refused(plan_wrapping(model, AnyOfWrap{{AnyOfWrap{{LambdaWrap{}}}}}, {}),
                "LambdaWrap has no function");
}

TEST_CASE("mixed precision: normalisations become units of full precision", "[wrap]") {
  const Model model = net();
  const WrapOptions options{.root = {.mixed_precision = true, .reshard_after_forward = true}};
  const Names expected = {"blocks.0", "blocks.0.norm", "blocks.1", "blocks.1.norm"};
  for (const WrapPolicy& policy :
       {WrapPolicy(ClassWrap{{"Block"}}), WrapPolicy(TransformerWrap{{"Block"}})}) {
    const WrapPlan plan = plan_of(model, policy, options);
    CHECK(units(model, plan) == expected);
    check_warning(plan, "BatchNorm2d");
    // Nobody else's settings change with theirs: each unit has a copy.
    CHECK(plan.units[0].overrides == options.root);
    CHECK(unit_at(model, plan, "blocks.0").overrides == options.root);
    CHECK(unit_at(model, plan, "blocks.1.norm").overrides ==
          UnitOverrides{.mixed_precision = false, .reshard_after_forward = true});
  }
}

TEST_CASE("mixed precision: the classes win over the policy's own overrides", "[wrap]") {
  const Model model = net();
  const CustomWrap policy{[](const Module& module) -> WrapChoice {
    if (!is_norm(module)) return false;
    return UnitOverrides{.mixed_precision = true, .reshard_after_forward = false};
  }};
  const WrapPlan plan = plan_of(model, policy, {.root = {.mixed_precision = true}});
  CHECK(unit_at(model, plan, "blocks.0.norm").overrides ==
        UnitOverrides{.mixed_precision = false, .reshard_after_forward = false});
  CHECK(plan.units[0].overrides.mixed_precision == true);
}

TEST_CASE("mixed precision: no classes without it, and none if none are given", "[wrap]") {
  const Model model = net();
  CHECK(units(model, plan_of(model, ClassWrap{{"Block"}})) == blocks);
  const WrapOptions none{.root = {.mixed_precision = true}, .full_precision_classes = {}};
  CHECK(units(model, plan_of(model, ClassWrap{{"Block"}}, none)) == blocks);
}

}  // namespace tessera::test
