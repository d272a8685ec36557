// SPDX-License-Identifier: Apache-2.0
// The optimizer steps partitions in groups of about one size, so that a group's states may come
// from a drive while another group is stepped (deepspeed stage3.py: _create_fp16_sub_groups).
#pragma once

#include <vector>

#include "engine/base/param_groups.h"
#include "engine/schemes/zero3/parameters/on_demand_parameter.h"

namespace tessera {

class SubGroups {
 public:
  /// `parameters` must outlive it. `size`: elements of partitions that close a group.
  SubGroups(OnDemandParameters& parameters, Numel size) : parameters_(parameters), size_(size) {}

  /// From what is trained now.
  void form(const ParamGroups& groups);

  std::size_t count() const { return groups_.size(); }
  const std::vector<ParameterId>& ids(std::size_t group) const { return groups_[group]; }
  /// None, beyond the last.
  std::vector<OnDemandParameter*> members(std::size_t group) const;
  std::vector<ParamShard*> shards(std::size_t group) const;

 private:
  OnDemandParameters& parameters_;
  const Numel size_;
  std::vector<std::vector<ParameterId>> groups_;
};

}  // namespace tessera
