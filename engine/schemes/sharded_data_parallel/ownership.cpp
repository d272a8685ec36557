// SPDX-License-Identifier: Apache-2.0
// Who owns what, and what is reduced together: pure functions of sizes.
#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/assert.h"
#include "tessera/sharded_data_parallel.h"

namespace tessera {

std::vector<Index> assign_owners(const std::vector<OwnedTensor>& tensors, Index ranks) {
  TESSERA_ASSERT(ranks >= 1, "somebody must own");
  OwnerMap map(ranks);
  std::vector<Index> owners;
  for (const OwnedTensor& t : tensors) owners.push_back(map.assign(t));
  return owners;
}

Index OwnerMap::assign(const OwnedTensor& tensor) {
  std::vector<Numel>& loads = loads_[tensor.optimizer];
  loads.resize(static_cast<std::size_t>(ranks_));
  const auto least = std::min_element(loads.begin(), loads.end());
  *least += tensor.trained ? tensor.numel : Numel{1};
  return static_cast<Index>(least - loads.begin());
}

ReducePlan plan_reductions(const std::vector<OwnedTensor>& tensors, Numel buffer_size) {
  Numel all{};
  std::vector<std::size_t> ascending;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    all += tensors[k].numel;
    if (tensors[k].trained) ascending.push_back(k);
  }
  std::sort(ascending.begin(), ascending.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(tensors[a].numel, tensors[a].owner, a) <
           std::tuple(tensors[b].numel, tensors[b].owner, b);
  });
  struct Open {
    std::vector<std::size_t> indices;
    Numel fill{};
  };
  const Numel limit = std::min(buffer_size, all);
  std::map<std::tuple<std::int32_t, Index, DType>, Open> open;
  ReducePlan plan;
  for (const std::size_t k : ascending) {
    Open& bucket = open[{tensors[k].optimizer, tensors[k].owner, tensors[k].dtype}];
    if (bucket.fill + tensors[k].numel < limit) {
      bucket.indices.push_back(k);
      bucket.fill += tensors[k].numel;
    } else {
      plan.direct.push_back(k);
    }
  }
  for (auto& [key, bucket] : open) {
    if (!bucket.indices.empty()) plan.buckets.push_back(std::move(bucket.indices));
  }
  return plan;
}

}  // namespace tessera
