// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/recent_files.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace tessera::inspector {

RecentFiles::RecentFiles(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  for (std::string line; traces_.size() < most && std::getline(file, line);) {
    if (!line.empty()) traces_.push_back(line);
  }
}

std::vector<std::string> RecentFiles::there() const {
  std::vector<std::string> found;
  for (const std::string& trace : traces_) {
    std::error_code none;
    if (std::filesystem::exists(trace, none)) found.push_back(trace);
  }
  return found;
}

void RecentFiles::add(const std::string& trace) {
  if (path_.empty()) return;
  std::error_code error;
  const std::string whole = std::filesystem::absolute(trace, error).lexically_normal().string();
  if (error || whole.find('\n') != std::string::npos) return;
  std::erase(traces_, whole);
  traces_.insert(traces_.begin(), whole);
  if (traces_.size() > most) traces_.resize(most);
  const std::filesystem::path to(path_);
  std::filesystem::create_directories(to.parent_path(), error);
  const std::string beside = path_ + ".new";
  {
    std::ofstream file(beside);
    for (const std::string& line : traces_) file << line << '\n';
    if (!file.flush()) return;
  }
  std::filesystem::rename(beside, to, error);
}

}  // namespace tessera::inspector
