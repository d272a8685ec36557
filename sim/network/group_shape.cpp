// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/group_shape.h"

#include <algorithm>
#include <map>

namespace tessera::sim {

CollectiveShape shape_of(std::span<const Rank> members, Index ranks_per_node) {
  std::map<Rank, Index> on_node;
  auto last = on_node.end();  // members mostly lie node by node
  for (const Rank rank : members) {
    const Rank node = rank / ranks_per_node;
    if (last == on_node.end() || last->first != node) last = on_node.try_emplace(node, 0).first;
    ++last->second;
  }
  CollectiveShape shape;
  shape.ranks = static_cast<Index>(members.size());
  shape.nodes = static_cast<Index>(on_node.size());
  if (on_node.empty()) return shape;
  const auto [fewest, most] =
      std::minmax_element(on_node.begin(), on_node.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  shape.ranks_per_node = most->second;
  if (fewest->second != most->second) shape.fewest_per_node = fewest->second;
  return shape;
}

std::vector<CollectiveShape> shapes_of(const RankGroups& groups, Index ranks_per_node) {
  std::vector<CollectiveShape> shapes;
  std::vector<Rank> members;
  for (Index g = 0; g < groups.group_count(); ++g) {
    members.clear();
    for (Index i = 0; i < groups.group_size(g); ++i) members.push_back(groups.member(g, i));
    shapes.push_back(shape_of(members, ranks_per_node));
  }
  const auto alike = [&](const CollectiveShape& s) {
    const CollectiveShape& first = shapes.front();
    return s.ranks == first.ranks && s.nodes == first.nodes &&
           s.ranks_per_node == first.ranks_per_node && s.fewest_per_node == first.fewest_per_node;
  };
  if (std::all_of(shapes.begin(), shapes.end(), alike)) shapes.resize(1);
  return shapes;
}

}  // namespace tessera::sim
