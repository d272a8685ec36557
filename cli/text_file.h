// SPDX-License-Identifier: Apache-2.0
// Writes a text to a file as a whole: until it is there, what was there before stays.
#pragma once

#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::cli {

/// By a file beside it that gets its name at the end. What is no file, such as /dev/stdout, is
/// written to as it is. Fails: io_error, naming the path.
Status write_text_file(const std::string& path, std::string_view text);

/// What a command has written may be written anew; anything else under that name is somebody's
/// file. `mark` is in all that is written, which people call `kind`. Fails: invalid_argument,
/// naming `option`, if there is a file that is not empty and has no `mark`.
Status check_overwrites(const char* option, const std::string& path, std::string_view mark,
                        const char* kind);

}  // namespace tessera::cli
