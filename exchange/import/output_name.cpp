// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/output_name.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

namespace tessera::exchange {

Status check_output_name(const std::vector<std::string>& files, const std::string& out,
                         const char* done) {
  std::set<std::string> before;
  std::error_code ignored;  // what does not exist is no other file
  for (const std::string& file : files) {
    if (!std::filesystem::equivalent(file, out, ignored) || ignored) continue;
    return {Code::invalid_argument,
            fmt::format("\"{}\" is to be {} and to be written: choose another name.", out, done)};
  }
  for (const std::string& file : files) {
    const std::filesystem::path path = std::filesystem::weakly_canonical(file, ignored);
    if (before.insert(ignored ? file : path.string()).second) continue;
    return {Code::invalid_argument,
            fmt::format("\"{}\" is to be {} twice: name it once.", file, done)};
  }
  return {};
}

}  // namespace tessera::exchange
