// SPDX-License-Identifier: Apache-2.0
// Text of a file, made harmless for a terminal.
//
//   fmt::print("{}\n", printable(run.name));
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

/// `text` with control characters, which could clear a screen or move what was said before, as
/// "\x1b"; also the second set of them, U+0080 to U+009F, and what is not UTF-8. New lines and tabs
/// are control characters, too.
std::string printable(std::string_view text);

}  // namespace tessera::cli
