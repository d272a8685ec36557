// SPDX-License-Identifier: Apache-2.0
// An export into a folder of its own: all of it, or nothing.
#pragma once

#include <functional>
#include <string>

#include "tessera/status.h"

namespace tessera::exchange {

/// Calls `write`, which makes `folder`, and removes that if it fails. `what`: "a DCP checkpoint".
/// Fails: invalid_argument (there is one already); as `write`.
Status fill_new_folder(const std::string& folder, const char* what,
                       const std::function<Status()>& write);

}  // namespace tessera::exchange
