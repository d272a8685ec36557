// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/layout.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace tessera::inspector {
namespace {

constexpr float part_px_max = 4000;

}  // namespace

Layout read_layout(const std::string& path) {
  Layout layout;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    float value = -1;
    words >> name >> value;
    if (!words || !(value >= 0 && value <= part_px_max)) continue;
    if (name == "memory") layout.memory = value;
    if (name == "details") layout.details = value;
    if (name == "hides_memory") layout.hides_memory = value > 0;
    if (name == "hides_details") layout.hides_details = value > 0;
  }
  return layout;
}

void write_layout(const std::string& path, const Layout& layout) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string beside = path + ".new";
  {
    std::ofstream file(beside);
    file << "memory " << layout.memory << "\ndetails " << layout.details << "\nhides_memory "
         << layout.hides_memory << "\nhides_details " << layout.hides_details << '\n';
    if (!file.flush()) return;
  }
  std::filesystem::rename(beside, path, error);
}

}  // namespace tessera::inspector
