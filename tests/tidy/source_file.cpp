// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/source_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tidy {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_ours(const fs::path& path) {
  static constexpr std::array<std::string_view, 7> kinds = {".h",     ".cpp", ".cu", ".sql",
                                                            ".cmake", ".md",  ".txt"};
  return std::find(kinds.begin(), kinds.end(), path.extension().string()) != kinds.end();
}

}  // namespace

bool SourceFile::in(std::string_view folder) const {
  return std::string_view(path).substr(0, folder.size()) == folder;
}

bool SourceFile::ends_with(std::string_view suffix) const {
  return std::string_view(path).ends_with(suffix);
}

bool SourceFile::is_public_header() const {
  return ends_with(".h") && path.find("/include/tessera/") != std::string::npos;
}

std::string to_string(const Findings& findings) {
  std::string result;
  for (const Finding& finding : findings) {
    result += finding.path;
    if (finding.line > 0) result += ":" + std::to_string(finding.line);
    result += ": " + finding.message + "\n";
  }
  return result;
}

std::vector<SourceFile> read_tree(const std::string& root) {
  std::vector<SourceFile> files;
  const auto add = [&](const fs::path& path) {
    if (is_ours(path)) {
      files.push_back({path.lexically_relative(root).generic_string(), read_text(path)});
    }
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file()) add(entry.path());
  }
  for (const char* folder :
       {"analysis", "c", "cli", "cmake", "docs", "engine", "examples", "exchange", "inspector",
        "query", "sim", "storage", "tests", "traces", "training"}) {
    if (!fs::is_directory(fs::path(root) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

bool exists_in(const std::string& root, const std::string& path) {
  return fs::exists(fs::path(root) / path);
}

}  // namespace tidy
