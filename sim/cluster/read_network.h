// SPDX-License-Identifier: Apache-2.0
// Reads the links of a cluster file. The first complaint stays in `status`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/sim/cluster.h"
#include "tessera/status.h"

namespace tessera::sim {

/// `link` has the values of what a file may leave out.
Link read_link(const nlohmann::json& json, const std::string& where, Status& status, Link link);
Nvls read_nvls(const nlohmann::json& json, const std::string& where, Status& status);
/// [{"operation": "all_reduce", "ranks": 8, "nodes": 1, "bytes": [...], "factors": [...]}]
std::vector<MeasuredFactors> read_measured(const nlohmann::json& json, const std::string& where,
                                           Status& status);

NcclFacts read_nccl(const nlohmann::json& json, const std::string& where, Status& status);

}  // namespace tessera::sim
