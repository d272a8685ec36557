// SPDX-License-Identifier: Apache-2.0
// The shipped cluster files, as text inside the library, so that they are there wherever it runs.
#pragma once

#include <span>
#include <string_view>

namespace tessera::sim {

struct ClusterPreset {
  std::string_view name;
  std::string_view json;
};

/// Ascending by name. Generated from sim/cluster/presets/*.json by CMake.
std::span<const ClusterPreset> shipped_clusters();

}  // namespace tessera::sim
