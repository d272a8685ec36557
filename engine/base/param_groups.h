// SPDX-License-Identifier: Apache-2.0
// The optimizer's groups of parameters, each parameter in one at most, and how often each was
// stepped.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/model.h"
#include "tessera/param_group.h"

namespace tessera {

class ParamGroups {
 public:
  /// One group with all parameters. `model` must outlive it.
  explicit ParamGroups(const Model& model);

  /// Fails: invalid_argument (no such parameter, one in two groups, a negative optimizer), naming
  /// it. Nothing has changed then.
  Status set(std::vector<ParamGroup> groups);
  Status add(ParamGroup group);
  Status set_adam(std::size_t group, const AdamOverrides& adam);

  const std::vector<ParamGroup>& all() const { return groups_; }
  /// Or nullptr.
  const ParamGroup* group_of(ParameterId parameter) const;
  bool contains(ParameterId parameter) const { return group_of(parameter) != nullptr; }

  std::int64_t steps_taken(ParameterId parameter) const { return steps_[parameter.index()]; }
  void set_steps_taken(ParameterId parameter, std::int64_t steps) {
    steps_[parameter.index()] = steps;
    any_step_ |= steps > 0;
  }
  void count_step(ParameterId parameter) {
    ++steps_[parameter.index()];
    any_step_ = true;
  }
  bool any_step() const { return any_step_; }

  /// Fails: invalid_argument, naming the number of a step or a group with which nothing can be
  /// stepped; `whose` begins the sentence.
  static Status check_numbers(const AdamOverrides& adam, std::string_view whose);

 private:
  Status check(const ParamGroup& group, std::vector<std::int32_t>& group_of,
               std::size_t place) const;

  const Model& model_;
  std::vector<ParamGroup> groups_;
  std::vector<std::int32_t> group_of_;  // by ParameterId; -1: none
  std::vector<std::int64_t> steps_;     // by ParameterId
  bool any_step_ = false;
};

}  // namespace tessera
