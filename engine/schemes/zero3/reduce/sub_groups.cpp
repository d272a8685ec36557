// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/reduce/sub_groups.h"

namespace tessera {

// Per group of the optimizer; a sub-group is closed by the parameter that makes it large enough.
// One lives in one place: it is stepped in one operation.
void SubGroups::form(const ParamGroups& groups) {
  groups_.clear();
  for (const ParamGroup& group : groups.all()) {
    Numel size = size_;
    for (ParameterId id : group.parameters) {
      const OnDemandParameter& p = parameters_[id];
      if (!p.trained) continue;
      const bool elsewhere = !groups_.empty() && !groups_.back().empty() &&
                             parameters_[groups_.back().back()].shard.memory != p.shard.memory;
      if (size >= size_ || elsewhere) {
        groups_.emplace_back();
        size = Numel{0};
      }
      groups_.back().push_back(id);
      size += p.partition;
    }
  }
}

std::vector<OnDemandParameter*> SubGroups::members(std::size_t group) const {
  std::vector<OnDemandParameter*> all;
  if (group >= groups_.size()) return all;
  for (ParameterId id : groups_[group]) all.push_back(&parameters_[id]);
  return all;
}

std::vector<ParamShard*> SubGroups::shards(std::size_t group) const {
  std::vector<ParamShard*> all;
  for (OnDemandParameter* p : members(group)) all.push_back(&p->shard);
  return all;
}

}  // namespace tessera
