// SPDX-License-Identifier: Apache-2.0
#include "engine/text/text_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera {

Result<std::string> text_of_file(const std::string& path) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be read: check the path and its permissions", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace tessera
