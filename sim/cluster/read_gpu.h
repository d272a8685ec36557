// SPDX-License-Identifier: Apache-2.0
// Reads the "gpu" object of a cluster file. The first complaint stays in `status`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tessera/sim/gpu.h"
#include "tessera/status.h"

namespace tessera::sim {

Gpu read_gpu(const nlohmann::json& json, const std::string& where, Status& status);

}  // namespace tessera::sim
