// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/output_name.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace tessera::exchange {

Status check_output_name(const std::vector<std::string>& files, const std::string& out,
                         const char* done) {
  std::error_code ignored;  // what does not exist is no other file
  for (const std::string& file : files) {
    if (!std::filesystem::equivalent(file, out, ignored) || ignored) continue;
    return {Code::invalid_argument,
            fmt::format("\"{}\" is to be {} and to be written: choose another name.", out, done)};
  }
  return {};
}

}  // namespace tessera::exchange
