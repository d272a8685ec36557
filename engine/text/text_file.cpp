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

Status check_no_stream(const std::string& path) {
  using Type = std::filesystem::file_type;
  std::error_code error;
  const Type type = std::filesystem::status(path, error).type();
  const bool device = type == Type::character || type == Type::block;
  if (!device && type != Type::fifo && type != Type::socket) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: is a {}, which cannot be read twice: write what it gives to a "
                            "file, and name that",
                            path,
                            device               ? "device"
                            : type == Type::fifo ? "pipe"
                                                 : "socket"));
}

}  // namespace tessera
