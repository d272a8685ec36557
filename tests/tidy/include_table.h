// SPDX-License-Identifier: Apache-2.0
// The table of docs/include-table.txt: who may include whom. What no line allows is forbidden.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source_file.h"

namespace tidy {

struct IncludeTable {
  struct Row {
    std::string folder;                  // with a slash at its end
    std::vector<std::string> own;        // folders (those of rows) and files; "*": all
    std::vector<std::string> libraries;  // beginnings of <...> beyond the standard library
    int line = 0;
  };

  std::string path;  // of the file that it was read from
  std::vector<Row> rows;

  /// The row with the longest folder that `path` lies in, or null.
  const Row* row_of(const std::string& path) const;
};

/// Lines without four columns are added to `wrong`.
IncludeTable read_include_table(const SourceFile& file, Findings& wrong);

/// `public_headers`: paths, to find what "tessera/..." means.
Findings check_includes(const SourceFile& file, const IncludeTable& table,
                        const std::set<std::string>& public_headers);

/// Rows and what they name exist in the tree, and no folders may include each other in a circle.
Findings check_include_table(const IncludeTable& table, const std::vector<SourceFile>& tree);

}  // namespace tidy
