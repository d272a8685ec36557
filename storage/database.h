// SPDX-License-Identifier: Apache-2.0
// SQLite with owners and Status: a connection and its prepared statements.
//
//   TESSERA_ASSIGN(Statement insert, database.prepare("INSERT INTO t VALUES (?, ?)"));
//   insert.bind(1, "text");
//   TESSERA_TRY(insert.run());
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::storage {

using Blob = std::span<const std::uint8_t>;

class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  /// Binds `value` to ?index. Text and blobs must live until the statement was stepped.
  void set(int index, std::int64_t value) { sqlite3_bind_int64(get(), index, value); }
  void set(int index, std::int32_t value) { sqlite3_bind_int64(get(), index, value); }
  void set(int index, double value) { sqlite3_bind_double(get(), index, value); }
  void set(int index, std::string_view value);
  void set(int index, Blob value);
  /// Binds `values` to ?1, ?2, ...
  template <class... Values>
  void bind(const Values&... values) {
    int index = 0;
    (set(++index, values), ...);
  }
  /// Executes with what is bound, and resets.
  Status run();
  /// True: there is a row. Fails: corrupt, io_error, out_of_memory.
  Result<bool> next();

  std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
  std::int32_t int32(int column) const { return static_cast<std::int32_t>(integer(column)); }
  double real(int column) const { return sqlite3_column_double(get(), column); }
  /// Text and blobs are valid until the next call of `next`.
  std::string_view text(int column) const;
  Blob blob(int column) const;
  int type(int column) const { return sqlite3_column_type(get(), column); }
  int columns() const { return sqlite3_column_count(get()); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3_stmt* get() const { return statement_.get(); }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  /// An existing file, never written to and taken to be unchanging. Fails: io_error.
  static Result<Database> open_read_only(const std::string& path);
  /// An existing, empty file. No journal: after a failure the file is useless. Fails: io_error.
  static Result<Database> open_disposable(const std::string& path);

  /// Any number of statements without results.
  Status run(const char* sql);
  Result<Statement> prepare(std::string_view sql) const;
  /// Whether the file has the table; tables of later versions are missing in older files.
  Result<bool> has_table(std::string_view name) const;
  Result<bool> has_column(std::string_view table, std::string_view column) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  static Result<Database> open(const std::string& path, const std::string& uri, int flags);

  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace tessera::storage
