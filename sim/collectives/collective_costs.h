// SPDX-License-Identifier: Apache-2.0
// How long a collective takes on an idle machine, and how NCCL carries it out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "tessera/sim/collective_plan.h"
#include "tessera/sim/cost_model.h"

namespace tessera::sim {

class CollectiveCosts {
 public:
  explicit CollectiveCosts(const Cluster& cluster) : cluster_(cluster) {}

  Time collective(const CollectiveShape& shape) const { return find(shape).plan.time; }
  std::string_view algorithm(const CollectiveShape& shape) const { return find(shape).text; }

 private:
  using Key = std::tuple<OpKind, std::int64_t, Index, Index, Index, Index>;
  struct Known {
    CollectivePlan plan;
    std::string text;
  };

  const Known& find(const CollectiveShape& shape) const;

  const Cluster cluster_;
  mutable std::map<Key, Known> known_;  // a program has few shapes and asks for each many times
};

}  // namespace tessera::sim
