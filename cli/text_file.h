// SPDX-License-Identifier: Apache-2.0
// What a command may write over.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/text/text_file.h"

namespace tessera::cli {

/// Fails: invalid_argument, naming `option`: "-", which other programs take for standard output.
Status check_is_name(const char* option, const std::string& path);

/// What a command has written may be written anew; anything else under that name is somebody's
/// file. `other` sees how it begins and says what it is instead, "is a picture", or "".
/// Fails: invalid_argument, naming `option` and what a file that is not empty is instead.
Status check_overwrites(const char* option, const std::string& path,
                        const std::function<std::string(std::string_view)>& other);
/// The same, where every `kind`, as people call it, has `mark` somewhere.
Status check_overwrites(const char* option, const std::string& path, const char* kind,
                        std::string_view mark);

}  // namespace tessera::cli
