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

namespace {

// "pipe"; nullptr: a file, a folder, or nothing.
const char* kind_of_stream(const std::string& path) {
  using Type = std::filesystem::file_type;
  std::error_code error;
  const Type type = std::filesystem::status(path, error).type();
  if (type == Type::character || type == Type::block) return "device";
  if (type == Type::fifo) return "pipe";
  return type == Type::socket ? "socket" : nullptr;
}

}  // namespace

Status check_no_stream(const std::string& path) {
  const char* const kind = kind_of_stream(path);
  if (kind == nullptr) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: is a {}, which cannot be read twice: write what it gives to a "
                            "file, and name that",
                            path, kind));
}

Status check_replaceable(const std::string& path) {
  const char* const kind = kind_of_stream(path);
  if (kind == nullptr) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("{}: is a {}, which a file would take the place of: name a file", path, kind));
}

std::string behind_links(const std::string& path) {
  constexpr int links_max = 40;  // as Linux has it
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return path;  // a pipe perhaps
  fs::path file = path;
  for (int k = 0; k < links_max && fs::is_symlink(file, error); ++k) {
    const auto target = fs::read_symlink(file, error);
    if (error) break;
    file = file.parent_path() / target;  // the target alone, if it is absolute
  }
  return file.string();
}

Status write_text_file(const std::string& path, std::string_view text) {
  std::error_code error;
  const bool special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string place = behind_links(path);
  const std::string target = special ? path : place + ".partial";
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && !special) std::filesystem::rename(target, place, error);
  if (file && (special || !error)) return {};
  if (!special) std::filesystem::remove(target, error);
  return Status(Code::io_error,
                fmt::format("{}: cannot be written: is there the folder, and room?", path));
}

}  // namespace tessera
