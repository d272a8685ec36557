// SPDX-License-Identifier: Apache-2.0
// Whether a file is a trace, by its first bytes: for who is about to write under its name.
//
//   if (!begins_as_trace(first_kibibyte)) return refuse(path);
#pragma once

#include <string_view>

namespace tessera::storage {

/// Whether a file that begins so is a trace, of any version, and no other SQLite database.
bool begins_as_trace(std::string_view bytes);

}  // namespace tessera::storage
