// SPDX-License-Identifier: Apache-2.0
// How the window looks and its parts share it, kept from one start to the next.
#pragma once

#include <optional>
#include <string>

#include "inspector/render/theme.h"

namespace tessera::inspector {

struct Layout {
  // Of the timeline's page, px before scaling; 0: as much as is useful.
  float memory = 0;   // the height of memory below the operations
  float details = 0;  // the width of the column beside them
  bool hides_memory = false, hides_details = false;
  // The second panel.
  std::string second;  // the name of what was there last (app/panels.h); "": nothing ever
  bool split = false;  // it is shown
  bool below = true;   // the first one, otherwise beside it
  float share = 0.5F;  // of the window that it has
  // The window; what is not set is as by default.
  std::optional<ThemeKind> theme;
  std::optional<float> zoom;  // of text and all else
  int width = 0, height = 0;  // px at scale 1
  bool maximised = false;

  bool operator==(const Layout&) const = default;
};

/// What `path` has, a line "name value" each; what it lacks, or has wrong, is as by default.
Layout read_layout(const std::string& path);
/// Writes beside it and renames; a file that cannot be written is left as it is. "": does nothing.
void write_layout(const std::string& path, const Layout& layout);

}  // namespace tessera::inspector
