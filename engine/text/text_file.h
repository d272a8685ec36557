// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera {

/// All of the file at `path`. Fails: io_error (no such file, no permission, a directory), naming
/// it.
Result<std::string> text_of_file(const std::string& path);

/// As a whole, by a file beside it that gets its name at the end: until then what was there stays.
/// What is no file, such as /dev/stdout, is written to as it is. Fails: io_error, naming the path.
Status write_text_file(const std::string& path, std::string_view text);

/// For what is read in pieces or more than once. Fails: invalid_argument for a pipe, a socket or a
/// device, naming it: opening a pipe would wait for a writer, and a device may have no end.
Status check_no_stream(const std::string& path);

/// For what is written beside `path` and takes its place when it is complete. Fails:
/// invalid_argument for a pipe, a socket or a device, naming it: whoever uses it would lose it.
Status check_replaceable(const std::string& path);

/// The file that `path` means through links, also if it is not there yet: what took the place of a
/// link would leave that file as it was, and take /dev/stdout from everybody else.
std::string behind_links(const std::string& path);

}  // namespace tessera
