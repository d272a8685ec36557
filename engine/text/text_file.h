// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tessera/status.h"

namespace tessera {

/// All of the file at `path`. Fails: io_error (no such file, no permission, a directory), naming
/// it.
Result<std::string> text_of_file(const std::string& path);

}  // namespace tessera
