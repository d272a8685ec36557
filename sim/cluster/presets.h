// SPDX-License-Identifier: Apache-2.0
// The shipped clusters and profiles, as text inside the library, so that they are there wherever it
// runs.
#pragma once

#include <span>
#include <string_view>

namespace tessera::sim {

struct ShippedFile {
  std::string_view name;
  std::string_view json;
};

/// Ascending by name. Generated from sim/cluster/presets/*.json by CMake.
std::span<const ShippedFile> shipped_clusters();
/// The text of sim/validation/families.json.
std::string_view validated_families();
/// Generated from sim/stack/profiles/*.json, likewise ascending.
std::span<const ShippedFile> shipped_profiles();

}  // namespace tessera::sim
