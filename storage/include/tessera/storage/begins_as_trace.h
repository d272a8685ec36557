// SPDX-License-Identifier: Apache-2.0
// What a file is by its first bytes, for who is about to replace it.
#pragma once

#include <string_view>

namespace tessera::storage {

/// Whether a file that begins so is a trace, of any version, and no other SQLite database.
bool begins_as_trace(std::string_view bytes);

}  // namespace tessera::storage
