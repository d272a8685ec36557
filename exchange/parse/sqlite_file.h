// SPDX-License-Identifier: Apache-2.0
// A database of somebody else, which may be damaged or made to harm: opened read-only, without
// views and triggers, and with an end to the work that a query takes.
//
//   TESSERA_ASSIGN(SqliteFile file, SqliteFile::open(path));
//   TESSERA_TRY(file.rows("SELECT start, end FROM NVTX_EVENTS", [&](const SqliteRow& row) {
//     add(row.integer(0), row.integer(1));
//     return Status();
//   }));
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::exchange {

class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  bool null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  /// Valid until the next row; bytes as they are, perhaps no UTF-8.
  std::string_view text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class SqliteFile {
 public:
  /// Fails: io_error, corrupt, each naming the file.
  static Result<SqliteFile> open(const std::string& path);
  SqliteFile(SqliteFile&&) noexcept;
  ~SqliteFile();

  /// Ordinary tables alone, ascending; at most 1000.
  const std::vector<std::string>& tables() const { return tables_; }
  bool has_table(std::string_view name) const;
  /// Of a table; empty if there is none.
  Result<std::vector<std::string>> columns(std::string_view table) const;
  /// Rows of a table, 0 if there is none.
  Result<std::int64_t> count(std::string_view table) const;

  /// Calls `each` for every row of a SELECT, until one fails. Fails: what `each` fails with;
  /// corrupt, naming the file.
  Status rows(const std::string& sql, const std::function<Status(const SqliteRow&)>& each) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  SqliteFile(std::string path, std::unique_ptr<sqlite3, Close> database);
  Status broken() const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
  std::vector<std::string> tables_;
};

}  // namespace tessera::exchange
