// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/module_file.h"

#include <vector>

namespace tessera {

namespace fs = std::filesystem;

std::optional<fs::path> find_module(const std::string& file, const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> places = {folder};
  if (folder.empty()) {
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {program, program / ".." / "lib" / "tessera"};
  }
  for (const fs::path& place : places) {
    if (fs::exists(place / file, ignored)) return place / file;
  }
  return {};
}

}  // namespace tessera
