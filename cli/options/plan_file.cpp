// SPDX-License-Identifier: Apache-2.0
#include "cli/options/plan_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera::cli {

Result<WrapPlan> load_wrap_plan(const std::string& path, const Model& model) {
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error,
                  fmt::format("{}: cannot be read: check the path and its permissions", path));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return read_wrap_plan(text.str(), path, model);
}

}  // namespace tessera::cli
