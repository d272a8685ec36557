// SPDX-License-Identifier: Apache-2.0
// Refuses what a profile's file says without effect, and what it leaves open.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/sim/stack_profile.h"

namespace tessera::sim {

/// `profile` is what `json` made of `base`, which holds where the file says nothing.
/// Fails: invalid_argument, naming `source` and the key.
Status check_profile(const nlohmann::json& json, const StackProfile& profile,
                     const StackProfile& base, const std::string& source);

}  // namespace tessera::sim
