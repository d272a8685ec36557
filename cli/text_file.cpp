// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace tessera::cli {

Status write_text_file(const std::string& path, std::string_view text) {
  std::error_code error;
  const bool special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string target = special ? path : path + ".partial";
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && !special) std::filesystem::rename(target, path, error);
  if (file && (special || !error)) return {};
  if (!special) std::filesystem::remove(target, error);
  return Status(Code::io_error,
                fmt::format("{}: cannot be written: is there the folder, and room?", path));
}

}  // namespace tessera::cli
