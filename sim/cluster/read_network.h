// SPDX-License-Identifier: Apache-2.0
// Reads the links of a cluster file. The first complaint stays in `status`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/sim/network.h"
#include "tessera/status.h"

namespace tessera::sim {

/// `link` has the values of what a file may leave out.
Link read_link(const nlohmann::json& json, const std::string& where, Status& status, Link link);
Nvls read_nvls(const nlohmann::json& json, const std::string& where, Status& status);
NcclFacts read_nccl(const nlohmann::json& json, const std::string& where, Status& status);

}  // namespace tessera::sim
