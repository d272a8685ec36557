// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/cost_model.h"

#include <cmath>

#include "sim/collectives/collective_costs.h"
#include "sim/compute/kernel_costs.h"

namespace tessera::sim {
namespace {

class ClusterCostModel final : public CostModel {
 public:
  ClusterCostModel(const Cluster& cluster, const StackProfile& stack)
      : kernels_(cluster, stack), collectives_(cluster), slower_(stack.collectives) {}

  Time compute(const ComputeCost& cost) const override { return kernels_.compute(cost); }
  Time copy(Bytes bytes, CopyRoute route) const override { return kernels_.copy(bytes, route); }
  Time collective(const CollectiveShape& shape) const override {
    return std::llround(slower_ * static_cast<double>(collectives_.collective(shape)));
  }
  std::string_view algorithm(const CollectiveShape& shape) const override {
    return collectives_.algorithm(shape);
  }

 private:
  const KernelCosts kernels_;
  const CollectiveCosts collectives_;
  const double slower_;
};

}  // namespace

std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster, const StackProfile& stack) {
  return std::make_unique<ClusterCostModel>(cluster, stack);
}

}  // namespace tessera::sim
