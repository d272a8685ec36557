// SPDX-License-Identifier: Apache-2.0
// The traces that were opened last, in a file of a line each.
#pragma once

#include <string>
#include <vector>

namespace tessera::inspector {

class RecentFiles {
 public:
  static constexpr std::size_t most = 10;

  /// `path`: the file; "": nothing is kept. What cannot be read counts as empty.
  explicit RecentFiles(std::string path);

  /// The latest first; without those that are gone.
  std::vector<std::string> there() const;
  /// `trace` is now the latest; a file that cannot be written is left as it is.
  void add(const std::string& trace);

 private:
  std::string path_;
  std::vector<std::string> traces_;  // absolute
};

}  // namespace tessera::inspector
