// SPDX-License-Identifier: Apache-2.0
// Settings of single units as names and values, as plans in traces and in files have them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/wrap.h"

namespace tessera {

/// {"param_dtype", "float32"}, ...: what is set, in a fixed order.
std::vector<std::pair<std::string_view, std::string>> overrides_as_text(
    const UnitOverrides& overrides);

/// Fails: invalid_argument (a name that there is not, a value that it cannot have), naming it.
Status set_override(UnitOverrides& overrides, std::string_view name, std::string_view value);

}  // namespace tessera
