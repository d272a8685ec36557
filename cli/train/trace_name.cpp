// SPDX-License-Identifier: Apache-2.0
#include "cli/train/trace_name.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/text_file.h"

namespace tessera::cli {
namespace {

constexpr std::string_view rank_place = "{rank}";

}  // namespace

Status check_trace_name(const char* option, const std::string& path) {
  TESSERA_TRY(check_is_name(option, path));
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string start(15, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (file.gcount() == 0 || start == "SQLite format 3") return {};
  return Status(Code::invalid_argument,
                fmt::format("{} {}: exists and is no trace: choose another name", option, path));
}

bool names_rank(const std::string& path) { return path.find(rank_place) != std::string::npos; }

std::string trace_name(const std::string& path, Rank rank) {
  std::string name = path;
  for (std::size_t at = name.find(rank_place); at != std::string::npos;
       at = name.find(rank_place)) {
    name.replace(at, rank_place.size(), fmt::format("{}", rank));
  }
  return name;
}

}  // namespace tessera::cli
