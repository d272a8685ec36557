// SPDX-License-Identifier: Apache-2.0
// The files of the source tree and what a check says about them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tidy {

/// A file, its path relative to the repository with forward slashes.
struct SourceFile {
  std::string path;
  std::string text;

  bool in(std::string_view folder) const;         // "engine/" or "engine/cuda/"
  bool ends_with(std::string_view suffix) const;  // ".h"
  bool is_code() const { return ends_with(".h") || ends_with(".cpp") || ends_with(".cu"); }
  /// Installed: what users include.
  bool is_public_header() const;
};

/// A broken rule. `line` is 1-based; 0 means the file as a whole.
struct Finding {
  std::string path;
  int line = 0;
  std::string message;
};

using Findings = std::vector<Finding>;

/// "engine/op.cpp:12: message", one per line: what a failed test shows.
std::string to_string(const Findings& findings);

/// The files that belong to the project, ascending path: code, build files and Markdown.
std::vector<SourceFile> read_tree(const std::string& root);

/// Whether `path`, relative to `root`, is a file or folder.
bool exists_in(const std::string& root, const std::string& path);

}  // namespace tidy
