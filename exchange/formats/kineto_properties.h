// SPDX-License-Identifier: Apache-2.0
// What a profile says beside its events: who the rank is, its process groups, its device.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "exchange/formats/kineto_events.h"

namespace tessera::exchange {

/// Of "[0, 1, 2]", ascending; none of a list that the profiler has shortened.
std::vector<Rank> ranks_in(std::string_view list);

void read_distributed(const nlohmann::json& info, KinetoFile& file);
void read_devices(const nlohmann::json& devices, KinetoFile& file);

}  // namespace tessera::exchange
