// SPDX-License-Identifier: Apache-2.0
#include "cli/train/trace_name.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace tessera::cli {

Status check_trace_name(const char* option, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string start(15, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (file.gcount() == 0 || start == "SQLite format 3") return {};
  return Status(Code::invalid_argument,
                fmt::format("{} {}: exists and is no trace: choose another name", option, path));
}

}  // namespace tessera::cli
