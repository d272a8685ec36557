// SPDX-License-Identifier: Apache-2.0
// Units that are summoned beside each other, against FSDP1 of torch 2.15: what is refused, and the
// values that are left.
#include <map>

#include "tessera/fsdp1.h"
#include "tessera/summon.h"
#include "tests/schemes/recorded_groups.h"

namespace tessera {
namespace {

TEST_CASE("units are summoned beside each other as by FSDP1 of torch 2.15", "[summon][golden]") {
  for (const test::RunJson& run : test::recorded_groups("summon")) {
    INFO("seed " << run["seed"] << run["units"] << run["calls"]);
    test::RecordedWorld world(run);
    const auto engine = test::require_value(
        fsdp1(*world.runtime, world.model,
              {.units = run["units"].get<std::vector<std::string>>(), .use_orig_params = true}));
    test::require_ok(engine->initialise(test::recorded_initial_value));
    std::map<std::string, std::vector<std::pair<std::unique_ptr<FullParams>, bool>>> opened;
    std::vector<std::size_t> refused;
    for (std::size_t k = 0; k < run["calls"].size(); ++k) {
      const test::RunJson& call = run["calls"][k];
      const std::string path = call[1];
      auto& here = opened[path];
      if (call[0] == "close") {
        if (here.empty()) continue;
        if (here.back().second) test::require_ok(here.back().first->commit());
        test::require_ok(here.back().first->close());
        here.pop_back();
        continue;
      }
      const bool writeback = call[2];
      auto full =
          summon_full_params(*engine, {.root = path, .recurse = call[3], .writeback = writeback});
      if (!full.ok()) {
        refused.push_back(k);
        continue;
      }
      for (const ParameterId id : writeback ? (*full)->parameters() : std::vector<ParameterId>{}) {
        test::require_ok((*full)->modify(id, [k](Rank, std::span<float> values) {
          for (float& v : values) v += static_cast<float>(k + 1);
        }));
      }
      here.emplace_back(std::move(*full), writeback);
    }
    const test::RunJson& first = run["found"][0];
    CHECK(refused == first["refused"].get<std::vector<std::size_t>>());
    CHECK(run["found"][1] == 0);  // as rank 0
    test::check_values(*engine, world.model, {first["values"], 0});
  }
}

}  // namespace
}  // namespace tessera
