// SPDX-License-Identifier: Apache-2.0
// A cost model with round numbers, for tests of the simulator's mechanics.
#pragma once

#include "tessera/sim/cost_model.h"

namespace tessera::test {

class TestCosts final : public sim::CostModel {
 public:
  Time compute(const ComputeCost& cost) const override {
    return 1000 + static_cast<Time>(cost.elementwise_bytes) + static_cast<Time>(cost.matmul_flops);
  }
  Time copy(Bytes bytes, CopyRoute) const override { return 100 + bytes.value; }
  Time collective(const sim::CollectiveShape& shape) const override {
    return shape.ranks == 1 ? 0 : 2000 + 10 * shape.bytes.value;
  }
  std::string_view algorithm(const sim::CollectiveShape&) const override { return "test"; }
};

}  // namespace tessera::test
