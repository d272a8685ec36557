// SPDX-License-Identifier: Apache-2.0
#include "engine/base/process_groups.h"

#include <fmt/format.h>

namespace tessera {

Result<RankGroups> process_groups(const RankSet& world, Index size,
                                  const std::optional<RankGroups>& named) {
  if (!named) return RankGroups::strided(world.count(), size == 0 ? world.count() : size);
  const RankGroups& groups = *named;
  if (size != 0) {
    return Status(
        Code::invalid_argument,
        fmt::format("process_groups says what process_group {} would: leave one out", size));
  }
  if (!world.covers(groups.ranks())) {
    return Status(Code::invalid_argument,
                  fmt::format("process groups name ranks {}, there are {} only",
                              groups.ranks().minus(world).to_string(), world.to_string()));
  }
  for (Index g = 1; g < groups.group_count(); ++g) {
    if (groups.group_size(g) == groups.group_size(0)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("process group 0 has {} ranks and group {} has {}: make the groups "
                              "equally large",
                              groups.group_size(0), g, groups.group_size(g)));
  }
  return groups;
}

RankSet first_members(const RankGroups& groups) {
  std::vector<Rank> first;
  for (Index g = 0; g < groups.group_count(); ++g) first.push_back(groups.member(g, 0));
  return RankSet::of(std::move(first));
}

}  // namespace tessera
