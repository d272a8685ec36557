// SPDX-License-Identifier: Apache-2.0
// How the parts of the timeline's page share it, kept from one start to the next.
#pragma once

#include <string>

namespace tessera::inspector {

/// px before scaling; 0: as much as is useful.
struct Layout {
  float memory = 0;   // the height of memory below the operations
  float details = 0;  // the width of the column beside them
  bool hides_memory = false, hides_details = false;

  bool operator==(const Layout&) const = default;
};

/// What `path` has, a line "name number" each; what it lacks, or has wrong, is as by default.
Layout read_layout(const std::string& path);
/// Writes beside it and renames; a file that cannot be written is left as it is. "": does nothing.
void write_layout(const std::string& path, const Layout& layout);

}  // namespace tessera::inspector
