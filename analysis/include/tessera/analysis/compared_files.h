// SPDX-License-Identifier: Apache-2.0
// Which traces a comparison is of: what a viewer needs of the file that `tessera compare --json`
// writes, as it finds out the rest again from the traces themselves.
//
//   TESSERA_ASSIGN(const auto files, read_compared_files("comparison.json"));
//   if (files) open(files->a, files->b);
#pragma once

#include <optional>
#include <string>

#include "tessera/status.h"

namespace tessera::analysis {

/// Paths that can be opened from here.
struct ComparedFiles {
  std::string a, b;
};

/// The traces that the comparison at `path` names: by their absolute paths, or, if nothing is
/// there, by their names beside it. Nothing if `path` does not begin as a JSON object does. Fails:
/// io_error (it cannot be read); invalid_argument (no comparison, or a trace that is gone), naming
/// it.
Result<std::optional<ComparedFiles>> read_compared_files(const std::string& path);

}  // namespace tessera::analysis
