// SPDX-License-Identifier: Apache-2.0
// SELECTs over tables that differ from version to version: what a table lacks is NULL.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "exchange/parse/sqlite_file.h"

namespace tessera::exchange {

class TableColumns {
 public:
  /// Of a table; without columns if there is none.
  static Result<TableColumns> of(const SqliteFile& file, std::string table);

  bool exists() const { return !columns_.empty(); }
  bool has(std::string_view column) const;
  bool has_all(std::initializer_list<std::string_view> columns) const;
  /// "alias.\"column\"" of the first of `columns` that there is, or "NULL".
  std::string pick(std::string_view alias, std::initializer_list<std::string_view> columns) const;
  /// "\"table\"".
  std::string quoted() const;

 private:
  std::string table_;
  std::vector<std::string> columns_;
};

}  // namespace tessera::exchange
