// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero12/flat_parts.h"

#include <algorithm>

namespace tessera {

FlatLayout flat_parts(const Model& model, const std::vector<ParameterId>& parameters, Index parts) {
  FlatLayout layout = flat_layout(model, parameters, parts);
  layout.shard += Numel{layout.shard.value % 2};
  return layout;
}

std::vector<ParameterId> round_robin(const std::vector<ParameterId>& parameters, Index parts) {
  std::vector<ParameterId> out;
  const auto step = static_cast<std::size_t>(parts);
  for (std::size_t first = 0; first < step; ++first) {
    for (std::size_t k = first; k < parameters.size(); k += step) out.push_back(parameters[k]);
  }
  return out;
}

std::vector<OwnedSlice> owned_slices(const std::vector<BucketEntry>& entries, Numel part) {
  std::vector<OwnedSlice> slices;
  for (const BucketEntry& entry : entries) {
    Numel done{};
    while (done < entry.numel) {
      const Numel at = entry.place + done;
      const auto owner = static_cast<Index>(at.value / part.value);
      const Numel in_part = at - part * owner;
      const Numel numel = std::min(entry.numel - done, part - in_part);
      if (slices.empty() || slices.back().owner != owner) {
        slices.push_back({.owner = owner, .offset = entry.offset + done, .pieces = {}});
      }
      slices.back().pieces.push_back({entry.parameter, entry.offset + done, in_part, numel});
      slices.back().numel += numel;
      done += numel;
    }
  }
  return slices;
}

}  // namespace tessera
