// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_groups.h"

#include <cstdint>
#include <string_view>
#include <utility>

namespace tessera::exchange {

const std::vector<MergeGroup>& MergeGroups::of(const storage::CommunicatorRow& communicator) {
  const auto [known, fresh] = known_.try_emplace(&communicator);
  if (fresh) known->second = find(communicator);
  return known->second;
}

std::vector<MergeGroup> MergeGroups::find(const storage::CommunicatorRow& communicator) const {
  const std::int64_t size = communicator.group_size, count = communicator.group_count;
  const bool told = size >= 1 && count >= 1 && size * count == all_.run.ranks;
  const std::string_view name = communicator.name;
  const bool apart = name == "replicate" || name == "replicas" || name == "across nodes";
  std::map<std::int64_t, MergeGroup> groups;  // by number
  for (std::size_t r = 0; r < all_.ranks.size(); ++r) {
    const std::int64_t rank = all_.ranks[r].rank;
    groups[!told ? rank : apart ? rank % count : rank / size].members.push_back(r);
  }
  std::vector<MergeGroup> found;
  for (auto& [number, group] : groups) {
    group.whole = told && std::ssize(group.members) == size;
    found.push_back(std::move(group));
  }
  return found;
}

}  // namespace tessera::exchange
