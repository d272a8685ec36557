// SPDX-License-Identifier: Apache-2.0
#include "engine/base/shard_map.h"

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

std::vector<ShardPiece> ShardMap::pieces(Index index, bool trained_only) const {
  TESSERA_ASSERT(index >= 0, "a rank has a place among those that share the parameter");
  std::vector<ShardPiece> out;
  const Numel begin = shard_ * index;
  const Numel end = begin + shard_;
  for (const Segment& segment : segments_) {
    if (trained_only && !segment.requires_grad) continue;
    const Numel from = std::max(segment.begin, begin);
    const Numel to = std::min(segment.begin + segment.numel, end);
    if (from < to)
      out.push_back({segment.parameter, from - segment.begin, from - begin, to - from});
  }
  return out;
}

bool ShardMap::requires_grad() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& s) { return s.requires_grad; });
}

bool ShardMap::holds(ParameterId parameter) const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const Segment& s) { return s.parameter == parameter; });
}

}  // namespace tessera
