// SPDX-License-Identifier: Apache-2.0
// How long a collective takes on an idle machine, and by which algorithm.
#pragma once

#include <string_view>

#include "tessera/sim/cost_model.h"

namespace tessera::sim {

class CollectiveCosts {
 public:
  explicit CollectiveCosts(const Cluster& cluster) : cluster_(cluster) {}

  Time collective(const CollectiveShape& shape) const;
  std::string_view algorithm(const CollectiveShape& shape) const;

 private:
  Time all_to_all(const CollectiveShape& shape) const;
  double bus_bandwidth(const CollectiveShape& shape) const;

  const Cluster cluster_;
};

}  // namespace tessera::sim
