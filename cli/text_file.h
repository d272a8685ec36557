// SPDX-License-Identifier: Apache-2.0
// Writes a text to a file as a whole: until it is there, what was there before stays.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::cli {

/// By a file beside it that gets its name at the end. What is no file, such as /dev/stdout, is
/// written to as it is. Fails: io_error, naming the path.
Status write_text_file(const std::string& path, std::string_view text);

/// What a command has written may be written anew; anything else under that name is somebody's
/// file. `is_one` sees how it begins. Fails: invalid_argument, naming `option`, if there is a file
/// that is not empty and no `kind`, as people call it.
Status check_overwrites(const char* option, const std::string& path, const char* kind,
                        const std::function<bool(std::string_view)>& is_one);
/// The same, where all that is written has `mark` somewhere.
Status check_overwrites(const char* option, const std::string& path, const char* kind,
                        std::string_view mark);

}  // namespace tessera::cli
