// SPDX-License-Identifier: Apache-2.0
// Values of options as JSON: booleans are booleans and numbers are numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/option.h"

namespace tessera {

nlohmann::ordered_json option_json(const OptionValue& value);

/// None for what no option can be: an object, null, a list of anything but strings.
std::optional<OptionValue> option_value(const nlohmann::json& json);

}  // namespace tessera
