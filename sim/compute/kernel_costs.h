// SPDX-License-Identifier: Apache-2.0
// How long one rank's kernels and copies take, by roofline, on an idle machine.
#pragma once

#include "tessera/op.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/stack_profile.h"

namespace tessera::sim {

class KernelCosts {
 public:
  KernelCosts(const Cluster& cluster, const StackProfile& stack)
      : cluster_(cluster), stack_(stack) {}

  Time compute(const ComputeCost& cost) const;
  Time copy(Bytes bytes, CopyRoute route) const;

 private:
  bool single(const ComputeCost& cost) const;  // whether matmuls run in float32
  double matmuls_ns(const ComputeCost& cost, double peak) const;
  double fp8_matmul_ns(const MatmulShape& shape) const;
  double attention_ns(const ComputeCost& cost, double peak) const;
  double hbm() const;
  double share(double per_node) const;
  double host_memory() const;
  Time over_host_link(double bytes) const;
  Time over_nvme(double bytes, double bytes_per_s) const;

  const Cluster cluster_;
  const StackProfile stack_;
};

}  // namespace tessera::sim
