// SPDX-License-Identifier: Apache-2.0
#include "engine/text/rank_name.h"

#include <string_view>

namespace tessera {
namespace {

constexpr std::string_view place = "{rank}";

}  // namespace

bool names_rank(const std::string& path) { return path.find(place) != std::string::npos; }

std::string name_of_rank(const std::string& path, Rank rank) {
  std::string name = path;
  for (std::size_t at = name.find(place); at != std::string::npos; at = name.find(place)) {
    name.replace(at, place.size(), std::to_string(rank));
  }
  return name;
}

}  // namespace tessera
