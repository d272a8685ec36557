// SPDX-License-Identifier: Apache-2.0
// Numbers of things, in messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/analysis/text.h"

namespace tessera::cli {

/// "1 file", "2,000 files".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", analysis::with_separators(count), noun, count == 1 ? "" : "s");
}

}  // namespace tessera::cli
