// SPDX-License-Identifier: Apache-2.0
// Groups of ranks that train a model each, and what each of their ranks must then have.
#pragma once

#include <algorithm>

#include "tests/schemes/replicate/replicas.h"

namespace tessera::test {

using Groups = std::vector<std::vector<Rank>>;

inline RankGroups groups_of(Groups groups) {
  return require_value(RankGroups::of(std::move(groups)));
}

/// Every rank of a group has what its group alone would have trained, to the bit.
inline void check_group(Engine& engine, const Model& model, const std::vector<Rank>& group,
                        int steps) {
  FormulaTraining reference(model);
  const Rank last = *std::max_element(group.begin(), group.end());
  for (int step = 0; step < steps; ++step) {
    reference.step(RankSet::of(group), last + 1, static_cast<float>(group.size()));
  }
  for (const auto& [id, list] : reference.elements) {
    std::size_t seen = 0, different = 0;
    require_ok(engine.inspect_shards(
        ParameterId{id}, [&, &expected = list](Rank rank, Numel, std::span<const float> values) {
          if (std::find(group.begin(), group.end(), rank) == group.end()) return;
          ++seen;
          for (std::size_t i = 0; i < values.size(); ++i) {
            different += values[i] == expected[i].value ? 0U : 1U;
          }
        }));
    INFO("parameter " << id << ", group of " << group[0]);
    CHECK(seen == group.size());
    CHECK(different == 0);
  }
}

}  // namespace tessera::test
