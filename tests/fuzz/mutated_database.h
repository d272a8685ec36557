// SPDX-License-Identifier: Apache-2.0
// Damage to a database that SQLite does not notice: rows, tables, and packed data whose checksums
// are right again, as nothing but ill will makes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/random.h"

namespace tessera::test {

class MutableDatabase {
 public:
  /// Of the bytes of a file, which are no database for others than `is_database`.
  explicit MutableDatabase(std::string bytes);
  static bool is_database(const std::string& bytes);

  /// The bytes of one that differs by one to four statements.
  std::string mutated(Random& random) const;

 private:
  std::string statement(Random& random) const;

  std::string bytes_;
  std::vector<std::pair<std::string, std::string>> columns_;  // table, column
  bool chunks_ = false;                                       // it is a trace of our own
};

}  // namespace tessera::test
