// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace tessera::cli {

Status write_text_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const bool beside =
      !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored);
  const std::string written = beside ? path + ".partial" : path;
  std::ofstream file(written, std::ios::binary);
  file << text;
  file.close();
  std::error_code failed;
  if (file && beside) std::filesystem::rename(written, path, failed);
  if (file && !failed) return {};
  if (beside) std::filesystem::remove(written, ignored);
  return Status(Code::io_error,
                fmt::format("{} cannot be written: is there the folder, and room?", path));
}

}  // namespace tessera::cli
