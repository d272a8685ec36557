// SPDX-License-Identifier: Apache-2.0
// What torch's _recursive_wrap wrapped, measured: tests/golden/layout/wrap_policy_vectors.txt. A
// line is a case and its result, ([paths], wrapped elements); some lines hold two.
#include <fstream>
#include <regex>

#include "engine/wrap/recursive_wrap.h"
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

struct Vector {
  std::string label;
  Names wrapped;
  std::int64_t numel;
};

std::vector<Vector> vectors() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) +
                     "/tests/golden/layout/wrap_policy_vectors.txt");
  static const std::regex result(R"re(\(\[([^\]]*)\], (\d+)\))re");
  static const std::regex path(R"re('([^']*)')re");
  std::vector<Vector> all;
  for (std::string line; std::getline(file, line);) {
    for (std::sregex_iterator match(line.begin(), line.end(), result), end; match != end; ++match) {
      Vector one{match->prefix(), {}, std::stoll((*match)[2])};
      const std::string list = (*match)[1];
      for (std::sregex_iterator name(list.begin(), list.end(), path); name != end; ++name) {
        one.wrapped.push_back((*name)[1]);
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

// Sequential(ModuleList([L, L])).
Model module_list() {
  TreeBuilder tree("list", "Sequential", DType::float32);
  tree.open("0", "ModuleList");
  linear30(tree, "0");
  linear30(tree, "1");
  tree.close();
  return tree.take();
}

// Sequential(Linear(10, 10), MultiheadAttention(100, 1)).
Model attention() {
  TreeBuilder tree("attention", "Sequential", DType::float32);
  tree.linear("0", 10, 10, true);
  tree.open("1", "MultiheadAttention");
  tree.parameter("in_proj_weight", {300, 100});
  tree.parameter("in_proj_bias", {300});
  tree.linear("out_proj", 100, 100, true);
  tree.close();
  return tree.take();
}

// Sequential(s, s, L): one object under two names.
Model shared_module() {
  TreeBuilder tree("shared", "Sequential", DType::float32);
  linear30(tree, "0");
  linear30(tree, "2");
  tree.model().module_aliases.push_back({"1", ModuleId{1}});
  return tree.take();
}

// What a label stands for. Where the measurement does not say its minimum, any that explains the
// result does.
struct Case {
  Model model = nested_sequential();
  WrapPolicy policy = AlwaysWrap{};
  WrapOptions options;
  bool only_children = false;
};

Case case_of(const std::string& label) {
  const auto starts = [&](const char* with) { return label.starts_with(with); };
  std::smatch min;
  const bool has_min = std::regex_search(label, min, std::regex(R"(min (\d+))"));
  SizeWrap size{Numel{has_min ? std::stoll(min[1]) : 40}};
  Case made;
  if (starts("always")) return made;
  if (starts("only_wrap_children")) made.only_children = true;
  if (starts("ModuleList") || starts(" | exclude")) made.model = module_list();
  if (starts(" | exclude override {}")) size.exclude = {};
  if (starts("MHA")) made.model = attention();
  if (starts("ignored m[1]")) made.options.ignored_modules = {"1"};
  if (starts("shared")) {
    made.model = shared_module();
    size.min_num_params = Numel{20};
  }
  made.policy = size;
  return made;
}

}  // namespace

TEST_CASE("the recursive engine wraps what torch wrapped", "[wrap][golden]") {
  const std::vector<Vector> all = vectors();
  REQUIRE(all.size() == 18);
  for (const Vector& expected : all) {
    CAPTURE(expected.label);
    const Case one = case_of(expected.label);
    const ModuleGraph graph(one.model);
    const auto ignored = ignored_states(one.model, graph, one.options);
    REQUIRE(ignored.ok());
    const RecursiveWrap actual =
        wrap_recursively(one.model, graph, one.policy, *ignored, one.only_children);
    CHECK(paths(one.model, actual.modules) == expected.wrapped);
    CHECK(actual.numel == Numel{expected.numel});
  }
}

}  // namespace tessera::test
