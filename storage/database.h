// SPDX-License-Identifier: Apache-2.0
// SQLite with owners and Status: a connection and its prepared statements.
//
//   TESSERA_ASSIGN(Statement insert, database.prepare("INSERT INTO t VALUES (?, ?)"));
//   insert.bind(1, "text");
//   TESSERA_TRY(insert.run());
#pragma once

#include <sqlite3.h>

#include <atomic>
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
  /// An existing file, never written to. One that a recording writes is seen as it is now, whatever
  /// comes later. A query that takes more work than a file of its size can give fails as corrupt:
  /// pages that lead in circles would be read for ever. Fails: io_error.
  static Result<Database> open_read_only(const std::string& path);
  /// An empty one, of this connection only. Fails: io_error.
  static Result<Database> open_in_memory();
  /// An existing, empty file, also held by `descriptor`. Others can read it meanwhile; after a kill
  /// it is as of the last commit. Fails: io_error.
  static Result<Database> open_recording(const std::string& path, int descriptor);

  /// Any number of statements without results.
  Status run(const char* sql);
  /// Ends a transaction of `open_recording`. Fails: io_error (the disk is full, ...); what was
  /// committed before stays.
  Status commit();
  /// Copies all to `path`, an empty file: equal content makes equal bytes. Fails: io_error.
  Status copy_to(const std::string& path);
  Result<Statement> prepare(std::string_view sql) const;
  /// Other threads wait with what they want of the connection until it is destroyed.
  auto lock() const {
    struct Leave {
      void operator()(sqlite3_mutex* mutex) const { sqlite3_mutex_leave(mutex); }
    };
    sqlite3_mutex* const mutex = sqlite3_db_mutex(connection_.get());  // null: nobody shares it
    sqlite3_mutex_enter(mutex);
    return std::unique_ptr<sqlite3_mutex, Leave>(mutex);
  }
  /// Whether the file has the table; tables of later versions are missing in older files.
  Result<bool> has_table(std::string_view name) const;
  Result<bool> has_column(std::string_view table, std::string_view column) const;
  /// Bytes of the file and of what is beside it; 0 unless opened by `open_read_only`.
  std::int64_t size() const { return limit_ == nullptr ? 0 : limit_->file_size; }
  /// For queries of users, which may take as long as they like.
  void allow_any_work();
  /// It stays this object's.
  sqlite3* connection() const { return connection_.get(); }

 private:
  /// How much work queries may do before they cannot be of use.
  struct WorkLimit {
    std::int64_t file_size = 0;
    std::atomic<std::int64_t> left = 0;  // calls of `on_work` until the latest query is given up
  };
  static int on_work(void* limit);
  void limit_work(std::int64_t file_size);
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  static Result<Database> open(const std::string& path, const std::string& uri, int flags);
  Status reserve();

  std::unique_ptr<WorkLimit> limit_;  // outlives the connection, which calls it
  std::unique_ptr<sqlite3, Close> connection_;
  int descriptor_ = -1;        // of a recording
  std::int64_t reserved_ = 0;  // bytes that the device has for it
};

}  // namespace tessera::storage
