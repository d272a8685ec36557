// SPDX-License-Identifier: Apache-2.0
// The policy of DeepSpeed 0.19.8, as far as it differs from that of 0.9.0.
//
// The idea: one order of visits for training and evaluation, which starts over when a forward pass
// begins. What still flies whenever an order ends is waited for and freed instead of refused, and
// what no hook freed in backward is freed at its end.
#pragma once

#include <vector>

#include "engine/schemes/zero3/policy/compatible_policy.h"

namespace tessera {

class Compatible019Policy final : public CompatiblePolicy {
 public:
  explicit Compatible019Policy(const PolicyGround& ground)
      : CompatiblePolicy(ground, ModuleTrace::Mode::invalid) {}

  Status begin_forward(const ForwardPass& pass) override;
  Status pre_backward(ModuleId module) override;
  Status end_pass(bool dropped) override;
  Status before_step() override;
  Status values_changed() override;

 private:
  Coordinator& coordinator() override { return first_coordinator(); }
  Status mismatched() override { return land_all(); }
  Status release_after_backward(ModuleId module) override;
  bool reads_ahead() const override;

  Status land_all();
  Status release_all(bool noted);
  Status release_left(ModuleId module);

  std::vector<ModuleId> in_backward_;  // fetched there and not released, in that order
};

}  // namespace tessera
