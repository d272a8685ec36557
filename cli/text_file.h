// SPDX-License-Identifier: Apache-2.0
// A text that a command writes: there is all of it, or what was there before.
//
//   TESSERA_TRY(write_text_file(arguments.plot, svg));
#pragma once

#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::cli {

/// Writes beside `path`, then renames; what is no file, such as /dev/stdout, is written to.
/// Fails: io_error, naming it.
Status write_text_file(const std::string& path, std::string_view text);

}  // namespace tessera::cli
