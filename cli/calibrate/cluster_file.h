// SPDX-License-Identifier: Apache-2.0
// Writes what was fitted into the JSON of a cluster file, so that all else of it stays.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/sim/cluster.h"

namespace tessera::cli {

/// Launches, links, NVLS, and what was measured of collectives, with its source.
void put_collectives(nlohmann::ordered_json& json, const sim::Cluster& fitted,
                     const std::string& source);

/// Curves of matmuls and attention.
void put_kernels(nlohmann::ordered_json& json, const sim::Gpu& fitted, const std::string& source);

}  // namespace tessera::cli
