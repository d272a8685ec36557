// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

Status check_overwrites(const char* option, const std::string& path, std::string_view mark,
                        const char* kind) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  if (std::filesystem::file_size(path, error) == 0) return {};
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  if (text.str().find(mark) != std::string::npos) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} {}: exists and is no {}: choose another name", option, path, kind));
}

}  // namespace tessera::cli
