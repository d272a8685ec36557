// SPDX-License-Identifier: Apache-2.0
// A policy decides which parameters are gathered when, and how long they stay.
//
// The idea: the engine says what the model does now; a policy answers with gathers and frees of a
// ParameterMover, which carries them out and knows nothing of plans.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/schemes/zero3/gather/parameter_mover.h"

namespace tessera {

/// The things that a policy sees and moves; all must outlive it.
struct PolicyGround {
  const Zero3Facts& facts;
  OnDemandParameters& parameters;
  ModuleNeeds& needs;
  ParameterMover& mover;
  ParameterSwapper& swapper;
};

class FetchPolicy {
 public:
  explicit FetchPolicy(const PolicyGround& ground) : ground_(ground) {}
  virtual ~FetchPolicy() = default;

  /// Before the first pass, and when modules need more. Fails: invalid_argument, where the options
  /// cannot work.
  virtual Status check() { return {}; }
  /// From now on `module` needs `parameter`, too. Fails: as check, and nothing has changed then.
  Status add_need(ModuleId module, ParameterId parameter);

  virtual Status begin_forward(const ForwardPass& pass) = 0;
  virtual Status pre_forward(ModuleId module, bool recomputing) = 0;
  /// `module` did its work in forward; `trains`: with parameters that need gradients.
  virtual void ran(ModuleId /*module*/, bool /*trains*/) {}
  virtual Status post_forward(ModuleId module) = 0;
  /// In forward: `module`, which runs, reads `p`, perhaps no need of it.
  virtual Status touch(ModuleId module, OnDemandParameter& p) = 0;
  virtual Status pre_backward(ModuleId module) = 0;
  virtual Status post_backward(ModuleId module) = 0;
  /// A pass with backward, or in evaluation, ends. `dropped`: it was a forward pass in training
  /// mode that gets no backward.
  virtual Status end_pass(bool dropped) = 0;
  /// Values are about to change, or have changed: frees everything.
  virtual Status before_step() = 0;
  virtual Status after_step() { return {}; }
  virtual Status values_changed() = 0;
  /// Other parameters are trained than before.
  virtual void graph_changed() {}

  /// Everything that is gathered now, by ParameterId, and why.
  std::vector<LiveParameter> live() const;
  /// The limit of gathered parameters; none: no such limit.
  virtual std::optional<Bytes> budget() const { return {}; }

 protected:
  const Model& model() const { return ground_.facts.model; }
  const Zero3Options& options() const { return ground_.facts.options; }
  ParameterMover& mover() const { return ground_.mover; }
  ParameterSwapper& swapper() const { return ground_.swapper; }
  OnDemandParameters& parameters() const { return ground_.parameters; }
  OnDemandParameter& at(ParameterId id) const { return ground_.parameters[id]; }
  const ModuleNeeds& all_needs() const { return ground_.needs; }
  const std::vector<ParameterId>& needs(ModuleId id) const { return ground_.needs.of(id); }
  /// "root" or its path.
  std::string path(ModuleId module) const;

 private:
  /// Fills in why `p`, which is gathered, is there.
  virtual void explain(const OnDemandParameter& p, LiveParameter& live) const = 0;

  const PolicyGround ground_;
};

std::unique_ptr<FetchPolicy> make_fetch_policy(Zero3Policy policy, const PolicyGround& ground);

}  // namespace tessera
