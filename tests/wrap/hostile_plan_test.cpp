// SPDX-License-Identifier: Apache-2.0
// One thing of a plan changed at random: it is refused in a sentence, or another plan.
// TESSERA_MUTATIONS=100000 tries more.
#include "tests/mutated_json.h"
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

const char* const good = R"({"tessera_plan": 1,
    "units": [{"class": "Linear", "param_dtype": "bfloat16", "reshard_after_forward": false},
              {"modules": "2.*", "shard_group": 2},
              {"modules": "0", "param_dtype": "float32", "offload_params": true},
              {"modules": "", "reduce_dtype": "float32", "reshard_group": 4}],
    "ignored_parameters": [], "ignored_modules": []})";

bool same(const WrapPlan& a, const WrapPlan& b) {
  if (a.units.size() != b.units.size() || a.ignored.size() != b.ignored.size()) return false;
  for (std::size_t k = 0; k < a.units.size(); ++k) {
    if (!(a.units[k].overrides == b.units[k].overrides)) return false;
  }
  return true;
}

TEST_CASE("a plan with a mistake is another plan or is refused in one sentence", "[wrap]") {
  const Model model = nested_sequential();
  const auto config = nlohmann::json::parse(good);
  const auto before = read_wrap_plan(good, "plan.json", model);
  REQUIRE(before.ok());
  const std::uint64_t all = mutations(3000);
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; seed <= all; ++seed) {
    const MutatedJson mutated = JsonMutator(seed).mutate(config);
    const auto plan = read_wrap_plan(mutated.text, "plan.json", model);
    INFO(seed << " " << mutated.path << " " << mutated.after.dump().substr(0, 100) << ": "
              << plan.status().message());
    if (!plan.ok()) {
      ++refused;
      CHECK(is_one_sentence(plan.status().message(), "plan.json: "));
    } else if (!mutated.path.empty() && mutated.after != mutated.before) {
      CHECK(!same(*plan, *before));
    }
  }
  CHECK(refused > all / 2);
}

}  // namespace
}  // namespace tessera::test
