// SPDX-License-Identifier: Apache-2.0
// Parameters that a module needs of others: registered, touched, or returned by a module below
// (deepspeed partition_parameters.py: register_external_parameter; parameter_offload.py:
// ZeROOrderedDict, _post_forward_module_hook).
//
// The idea: who runs inside of whom is known while forward runs, so a parameter that comes up is
// given to the module that runs, or to the one around it.
#pragma once

#include <string_view>
#include <vector>

#include "engine/schemes/zero3/policy/fetch_policy.h"

namespace tessera {

class ExternalParameters {
 public:
  /// All must outlive it.
  ExternalParameters(const Model& model, OnDemandParameters& parameters, ModuleNeeds& needs)
      : model_(model), parameters_(parameters), needs_(needs) {}

  // Between passes.
  Status add(ModuleId module, ParameterId id, FetchPolicy& policy);
  Status remove(ModuleId module, ParameterId id);

  // In forward.
  void begin_forward() { running_.clear(); }
  void enter(ModuleId module) { running_.push_back(module); }
  /// The module around it answers for its results. Fails: invalid_argument, if another
  /// module runs.
  Status leave(ModuleId module, FetchPolicy& policy);
  /// The module that runs reads it.
  Status touch(ParameterId id, FetchPolicy& policy);
  /// The module that runs will return it.
  Status give_back(ParameterId id);

 private:
  std::string_view name(ParameterId id) const {
    return parameters_.contains(id) ? std::string_view(model_.parameter(id).name)
                                    : "an unknown parameter";
  }
  Status take_over(ModuleId from, ParameterId id, FetchPolicy& policy);

  const Model& model_;
  OnDemandParameters& parameters_;
  ModuleNeeds& needs_;
  std::vector<ModuleId> running_;      // from the root down
  std::vector<ParameterId> returned_;  // by the module that runs
};

}  // namespace tessera
