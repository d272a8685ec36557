// SPDX-License-Identifier: Apache-2.0
// The sizes, times and pictures of `tessera inspect`, as people write them.
#pragma once

#include <string>
#include <utility>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

struct PictureSize {
  int width = 0;  // px
  int height = 0;
};

/// "1920x1080". Fails: invalid_argument (not of that form, under 200x150, over 16384x16384).
Result<PictureSize> parse_size(const std::string& text);

/// "12.5:40", ms, as ns. Fails: invalid_argument (not of that form, negative, empty).
Result<std::pair<Time, Time>> parse_time_range(const std::string& text);

/// Whether a picture may be written to `path`. Fails: invalid_argument, naming --screenshot: there
/// is a file that is no PNG, or the name says that it is to be another kind of picture.
Status check_picture(const std::string& path);

}  // namespace tessera::cli
