// SPDX-License-Identifier: Apache-2.0
// The words that an option takes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::cli {

/// Refuses every other word than the keys of `map`.
template <class Map>
CLI::IsMember names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return CLI::IsMember(names);
}

}  // namespace tessera::cli
