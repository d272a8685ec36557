// SPDX-License-Identifier: Apache-2.0
// Random trees, ties and aliases under random policies: whatever is not refused is a sound plan.
#include <algorithm>

#include "engine/model/module_graph.h"
#include "tests/random.h"
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

constexpr const char* class_names[] = {"Linear", "Block", "ModuleList", "BatchNorm1d"};

void grow(TreeBuilder& tree, Random& random, int depth) {
  for (std::int64_t k = random.below(3); k > 0; --k) {
    const ParameterId id = tree.parameter("p" + std::to_string(k), {random.below(20)});
    tree.model().parameters[id.index()].requires_grad = random.chance(90);
  }
  if (depth == 0) return;
  for (std::int64_t k = random.below(4); k > 0; --k) {
    tree.open("m" + std::to_string(k), class_names[random.below(4)]);
    grow(tree, random, depth - 1);
    tree.close();
  }
}

ModuleId any_module(const Model& model, Random& random) {
  return ModuleId{
      static_cast<std::int32_t>(random.below(static_cast<std::int64_t>(model.modules.size())))};
}

Model random_model(Random& random) {
  TreeBuilder tree("random", "Net", DType::float32);
  grow(tree, random, 4);
  Model model = tree.take();
  for (std::int64_t k = random.below(3); k > 0; --k) {
    const Module& owner = model.module(any_module(model, random));
    const std::string prefix = owner.path.empty() ? "" : owner.path + ".";
    if (random.chance(50) && !model.parameters.empty()) {
      const auto count = static_cast<std::int64_t>(model.parameters.size());
      model.ties.push_back({prefix + "t" + std::to_string(k),
                            ParameterId{static_cast<std::int32_t>(random.below(count))}});
      continue;
    }
    // To a later module outside the owner's ancestors: none can come to contain itself.
    const ModuleId shared = any_module(model, random);
    const std::string& path = model.module(shared).path;
    const auto owner_id = static_cast<std::int32_t>(&owner - model.modules.data());
    if (shared.value > owner_id) model.module_aliases.push_back({prefix + "x" + path, shared});
  }
  for (ModuleAlias& alias : model.module_aliases) {  // a name is free of dots
    const auto at = alias.path.find('x');
    std::replace(alias.path.begin() + static_cast<std::ptrdiff_t>(at), alias.path.end(), '.', '_');
  }
  return model;
}

WrapPolicy random_policy(const Model& model, Random& random) {
  const std::string some_class = model.module(any_module(model, random)).class_name;
  switch (random.below(6)) {
    case 0: return AlwaysWrap{};
    case 1: return ClassWrap{{some_class}};
    case 2: return TransformerWrap{{some_class}};
    case 3: return SizeWrap{Numel{random.below(60)}};
    case 4: return LambdaWrap{[](const Module& m) { return m.path.size() % 3 == 0; }};
    default: return AnyOfWrap{{SizeWrap{Numel{random.below(60)}}, ClassWrap{{some_class}}}};
  }
}

bool has_unit(const WrapPlan& plan, ModuleId id) {
  return std::any_of(plan.units.begin(), plan.units.end(),
                     [id](const WrapUnit& unit) { return unit.module == id; });
}

ModuleId nearest_unit(const WrapPlan& plan, const Model& model, ModuleId id) {
  while (!has_unit(plan, id)) id = model.module(id).parent;
  return id;
}

void check_sound(const Model& model, const WrapPlan& plan) {
  CHECK(std::is_sorted(plan.units.begin(), plan.units.end(),
                       [](const auto& a, const auto& b) { return a.module < b.module; }));
  std::vector<int> managed(model.parameters.size(), 0);
  for (const WrapUnit& unit : plan.units) {
    CHECK(std::is_sorted(unit.parameters.begin(), unit.parameters.end()));
    for (ParameterId id : unit.parameters) {
      ++managed[id.index()];
      CHECK(nearest_unit(plan, model, model.parameter(id).module) == unit.module);
    }
  }
  for (std::size_t p = 0; p < managed.size(); ++p) {
    const ParameterId id{static_cast<std::int32_t>(p)};
    const bool ignored =
        std::find(plan.ignored.begin(), plan.ignored.end(), id) != plan.ignored.end();
    CHECK(managed[p] == (ignored ? 0 : 1));
  }
}

// Every user of a managed tensor has the tensor's unit as its nearest one.
void check_users(const Model& model, const WrapPlan& plan) {
  const ModuleGraph graph(model);
  for (const WrapUnit& unit : plan.units) {
    const auto manages = [&unit](ParameterId id) {
      return std::binary_search(unit.parameters.begin(), unit.parameters.end(), id);
    };
    for (const Tie& tie : model.ties) {
      if (!manages(tie.parameter)) continue;
      CHECK(nearest_unit(plan, model, owner_of(model, tie.alias)) == unit.module);
    }
    for (const ModuleAlias& alias : model.module_aliases) {
      const auto below = graph.parameters_below(alias.module);
      const bool is_unit = has_unit(plan, alias.module);
      CHECK((alias.module != unit.module || std::find(unit.aliases.begin(), unit.aliases.end(),
                                                      alias.path) != unit.aliases.end()));
      if (is_unit || nearest_unit(plan, model, alias.module) != unit.module) continue;
      if (std::none_of(below.begin(), below.end(), manages)) continue;
      CHECK(nearest_unit(plan, model, owner_of(model, alias.path)) == unit.module);
    }
  }
}

}  // namespace

TEST_CASE("every managed parameter is in one unit, its nearest; ignored ones in none",
          "[wrap][property]") {
  int planned = 0;
  int shared = 0;  // of them, with something to get wrong
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed=" << seed);
    Random random(seed);
    const Model model = random_model(random);
    WrapOptions options{.root = {.mixed_precision = random.chance(30)}};
    if (random.chance(40)) {
      options.ignored_modules = {model.module(any_module(model, random)).path};
    } else if (random.chance(40) && !model.parameters.empty()) {
      options.ignored_states = {model.parameters.back().name, model.parameters.front().name};
    }
    const WrapPolicy policy = random_policy(model, random);
    const auto plan = plan_wrapping(model, policy, options);
    if (!plan.ok()) {  // only for what is shared
      INFO(plan.status().message());
      CHECK((!model.ties.empty() || !model.module_aliases.empty()));
      continue;
    }
    ++planned;
    shared += model.ties.empty() && model.module_aliases.empty() ? 0 : 1;
    check_sound(model, *plan);
    check_users(model, *plan);
    const auto again = plan_wrapping(model, policy, options);  // as another rank would
    REQUIRE(again.ok());
    CHECK(units(model, *again) == units(model, *plan));
  }
  CHECK(planned > 250);
  CHECK(shared > 50);
}

}  // namespace tessera::test
