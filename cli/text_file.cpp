// SPDX-License-Identifier: Apache-2.0
#include "cli/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace tessera::cli {

Status check_is_name(const char* option, const std::string& path) {
  if (path != "-") return {};
  return Status(
      Code::invalid_argument,
      fmt::format("{} -: is no name of a file, and nothing is written to standard output: "
                  "give a name",
                  option));
}

Status check_overwrites(const char* option, const std::string& path,
                        const std::function<std::string(std::string_view)>& other) {
  TESSERA_TRY(check_is_name(option, path));
  constexpr std::uintmax_t most = 16 << 20;  // more than any of these files; others may be huge
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size == 0) return {};
  std::string text(std::min(size, most), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const std::string what = other(text);
  if (what.empty()) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} {}: exists and {}: choose another name", option, path, what));
}

Status check_overwrites(const char* option, const std::string& path, const char* kind,
                        std::string_view mark) {
  return check_overwrites(option, path, [=](std::string_view text) {
    return text.find(mark) != text.npos ? "" : fmt::format("is no {}", kind);
  });
}

}  // namespace tessera::cli
