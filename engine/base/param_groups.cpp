// SPDX-License-Identifier: Apache-2.0
#include "engine/base/param_groups.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tessera/assert.h"

namespace tessera {

ParamGroups::ParamGroups(const Model& model)
    : model_(model),
      groups_(1),
      group_of_(model.parameters.size(), 0),
      steps_(model.parameters.size(), 0) {
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    groups_[0].parameters.push_back(ParameterId{static_cast<std::int32_t>(k)});
  }
}

const ParamGroup* ParamGroups::group_of(ParameterId parameter) const {
  TESSERA_ASSERT(parameter.valid() && parameter.index() < group_of_.size(),
                 "a parameter of the model");
  const std::int32_t place = group_of_[parameter.index()];
  return place < 0 ? nullptr : &groups_[static_cast<std::size_t>(place)];
}

Status ParamGroups::check_numbers(const AdamOverrides& adam, std::string_view whose) {
  constexpr float largest = std::numeric_limits<float>::max();
  const std::tuple<const char*, std::optional<float>, float> numbers[] = {
      {"learning_rate", adam.learning_rate, largest},
      {"beta1", adam.beta1, std::nextafter(1.0F, 0.0F)},
      {"beta2", adam.beta2, std::nextafter(1.0F, 0.0F)},
      {"epsilon", adam.epsilon, largest},
      {"weight_decay", adam.weight_decay, largest}};
  for (const auto& [name, value, most] : numbers) {
    if (!value || (*value >= 0 && *value <= most)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} is {}, but must be at least 0 and {}", whose, name, *value,
                              most < 1 ? "below 1" : "finite"));
  }
  return {};
}

Status ParamGroups::check(const ParamGroup& group, std::vector<std::int32_t>& group_of,
                          std::size_t place) const {
  if (group.optimizer < 0) {
    return Status(Code::invalid_argument,
                  fmt::format("param group {}: optimizer must be at least 0, found {}", place,
                              group.optimizer));
  }
  TESSERA_TRY(check_numbers(group.adam, fmt::format("param group {}", place)));
  for (const ParameterId id : group.parameters) {
    if (!id.valid() || id.index() >= group_of.size()) {
      return Status(Code::invalid_argument,
                    fmt::format("param group {}: {} has no parameter {}, it has {}", place,
                                model_.name, id.value, group_of.size()));
    }
    if (group_of[id.index()] >= 0) {
      return Status(Code::invalid_argument,
                    fmt::format("param group {}: {} is in group {} already, and a parameter has "
                                "one group at most",
                                place, model_.parameter(id).name, group_of[id.index()]));
    }
    group_of[id.index()] = static_cast<std::int32_t>(place);
  }
  return {};
}

Status ParamGroups::set(std::vector<ParamGroup> groups) {
  std::vector<std::int32_t> group_of(group_of_.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) TESSERA_TRY(check(groups[g], group_of, g));
  groups_ = std::move(groups);
  group_of_ = std::move(group_of);
  return {};
}

Status ParamGroups::add(ParamGroup group) {
  std::vector<std::int32_t> group_of = group_of_;
  TESSERA_TRY(check(group, group_of, groups_.size()));
  groups_.push_back(std::move(group));
  group_of_ = std::move(group_of);
  return {};
}

Status ParamGroups::set_adam(std::size_t group, const AdamOverrides& adam) {
  if (group >= groups_.size()) {
    return Status(Code::invalid_argument,
                  fmt::format("there is no param group {}, there are {}", group, groups_.size()));
  }
  TESSERA_TRY(check_numbers(adam, fmt::format("param group {}", group)));
  groups_[group].adam = adam;
  return {};
}

}  // namespace tessera
