// SPDX-License-Identifier: Apache-2.0
// How long one rank's kernels and copies take, by roofline, on an idle machine.
#pragma once

#include "tessera/op.h"
#include "tessera/sim/cluster.h"

namespace tessera::sim {

class KernelCosts {
 public:
  explicit KernelCosts(const Cluster& cluster) : cluster_(cluster) {}

  Time compute(const ComputeCost& cost) const;
  Time copy(Bytes bytes, CopyRoute route) const;

 private:
  double hbm() const;
  double share(double per_node) const;
  double host_memory() const;
  Time over_host_link(double bytes) const;
  Time over_nvme(double bytes, double bytes_per_s) const;

  const Cluster cluster_;
};

}  // namespace tessera::sim
