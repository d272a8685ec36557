// SPDX-License-Identifier: Apache-2.0
// Tables of text for terminals: a heading, named columns, the first left and the others
// right-aligned.
//
//   Table table("Memory", {"class", "GiB"});
//   table.row({"activations", "41.20"});
//   print(table.text(/*bold=*/false));
#pragma once

#include <string>
#include <vector>

#include "tessera/analysis/text.h"

namespace tessera::cli {

using analysis::with_separators;

/// A name of files that may be of any length: at most 70 bytes, the rest as "...".
std::string shortened(const std::string& name);

/// Text of files comes to the terminal through here: without control characters (printable.h).
class Table {
 public:
  /// `columns` empty: no line of names; rows may then have any size.
  Table(const std::string& heading, std::vector<std::string> columns);

  /// REQUIRES: as many cells as columns, if columns are named.
  void row(std::vector<std::string> cells);
  /// A paragraph below the rows, broken at 100 columns.
  void note(const std::string& text);
  /// Whether columns after the first are left-aligned.
  void align_left() { left_ = true; }
  /// The last column is text.
  void align_last_left() { last_left_ = true; }

  /// Ends with an empty line. `bold`: the heading, by an ANSI sequence.
  std::string text(bool bold) const;

 private:
  std::string heading_;
  std::vector<std::vector<std::string>> rows_;  // the names of columns included
  std::vector<std::string> notes_;
  std::size_t columns_;
  bool left_ = false;
  bool last_left_ = false;
};

}  // namespace tessera::cli
