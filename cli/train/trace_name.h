// SPDX-License-Identifier: Apache-2.0
// Whether a trace may be written under a name.
#pragma once

#include <string>

#include "tessera/status.h"

namespace tessera::cli {

/// A trace may be written again; anything else under that name is somebody's file.
/// Fails: invalid_argument, naming `option` and the file.
Status check_trace_name(const char* option, const std::string& path);

}  // namespace tessera::cli
