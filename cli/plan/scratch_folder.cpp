// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/scratch_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tessera::cli {

Result<ScratchFolder> ScratchFolder::create() {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  std::string name = (base / "tessera-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return Status(Code::io_error,
                  fmt::format("no temporary folder can be made below {}: set TMPDIR, or give "
                              "--output",
                              error ? "$TMPDIR" : base.string()));
  }
  return ScratchFolder(std::move(name));
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace tessera::cli
