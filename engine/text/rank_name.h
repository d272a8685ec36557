// SPDX-License-Identifier: Apache-2.0
// Names of files of which each rank has its own: "run.{rank}.tessera".
#pragma once

#include <string>
#include <string_view>

#include "tessera/types.h"

namespace tessera {

inline constexpr std::string_view rank_place = "{rank}";

inline bool names_rank(const std::string& path) {
  return path.find(rank_place) != std::string::npos;
}

/// "run.3.tessera"; `path` itself where it does not name a rank.
inline std::string name_of_rank(std::string path, Rank rank) {
  for (auto at = path.find(rank_place); at != path.npos; at = path.find(rank_place)) {
    path.replace(at, rank_place.size(), std::to_string(rank));
  }
  return path;
}

}  // namespace tessera
