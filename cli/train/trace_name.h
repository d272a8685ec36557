// SPDX-License-Identifier: Apache-2.0
// What a trace is called, and whether it may be written under that name.
#pragma once

#include <string>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

/// A trace may be written again; anything else under that name is somebody's file.
/// Fails: invalid_argument, naming `option` and the file.
Status check_trace_name(const char* option, const std::string& path);

/// "run.{rank}.tessera": each rank writes a trace of its own.
bool names_rank(const std::string& path);
/// "run.3.tessera"; `path` itself where it does not name a rank.
std::string trace_name(const std::string& path, Rank rank);

}  // namespace tessera::cli
