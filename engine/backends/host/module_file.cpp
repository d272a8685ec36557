// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/module_file.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace tessera {

namespace fs = std::filesystem;

std::optional<fs::path> find_module(const std::string& file, const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> places = {folder};
  const char* const named = std::getenv("TESSERA_MODULES");
  if (folder.empty() && named != nullptr && *named != 0) {
    places = {named};
  } else if (folder.empty()) {
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {program, program / ".." / TESSERA_LIBDIR / "tessera"};
    // The library of C, opened by Python or by a program that lies elsewhere.
    Dl_info own = {};
    if (dladdr(reinterpret_cast<const void*>(&find_module), &own) != 0) {
      places.push_back(fs::path(own.dli_fname).parent_path() / "tessera");
    }
  }
  for (const fs::path& place : places) {
    if (fs::exists(place / file, ignored)) return place / file;
  }
  return {};
}

}  // namespace tessera
