// SPDX-License-Identifier: Apache-2.0
// Files that are taken for text because of their name, and what they are instead.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

/// The mark that editors on Windows put before UTF-8: no part of the text. Its bytes, or 0.
std::size_t utf8_mark(std::string_view text);

}  // namespace tessera
