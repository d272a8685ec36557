// SPDX-License-Identifier: Apache-2.0
// Lists of names that people give.
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera {

/// Fails: invalid_argument, naming `flag` and a name that is there twice.
Status check_named_once(const std::string& flag, const std::vector<std::string>& names);

}  // namespace tessera
