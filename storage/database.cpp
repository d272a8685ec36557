// SPDX-License-Identifier: Apache-2.0
#include "storage/database.h"

#include <fmt/format.h>

namespace tessera::storage {
namespace {

Code code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: return Code::corrupt;  // our SQL is right, so the schema is not ours
    case SQLITE_NOMEM: return Code::out_of_memory;
    case SQLITE_CONSTRAINT: return Code::invalid_argument;
    default: return Code::io_error;
  }
}

Status error_of(sqlite3* connection, const char* doing) {
  const char* path = sqlite3_db_filename(connection, "main");
  return {code_of(sqlite3_extended_errcode(connection)),
          fmt::format("Cannot {} \"{}\": {}.", doing, path != nullptr ? path : "",
                      sqlite3_errmsg(connection))};
}

/// A URI for any path, also those with '?', '#', '%' or ':'.
std::string uri_of(const std::string& path, std::string_view options) {
  std::string uri = path.starts_with('/') ? "file://" : "file:./";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri.append("?").append(options);
}

}  // namespace

Result<bool> Statement::next() {
  const int result = sqlite3_step(get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return error_of(sqlite3_db_handle(get()), "read");
}

std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(get(), column))};
}

Blob Statement::blob(int column) const {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(get(), column))};
}

void Statement::set(int index, std::string_view value) {
  // A null pointer would mean NULL rather than the empty text.
  const char* data = value.data() != nullptr ? value.data() : "";
  sqlite3_bind_text64(get(), index, data, value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::set(int index, Blob value) {
  sqlite3_bind_blob64(get(), index, value.data(), value.size(), SQLITE_STATIC);
}

Status Statement::run() {
  const int result = sqlite3_step(get());
  Status status;
  if (result != SQLITE_DONE) status = error_of(sqlite3_db_handle(get()), "write");
  sqlite3_reset(get());
  return status;
}

Result<Database> Database::open(const std::string& path, const std::string& uri, int flags) {
  sqlite3* connection = nullptr;
  const int result = sqlite3_open_v2(uri.c_str(), &connection, flags | SQLITE_OPEN_URI, nullptr);
  Database database;
  database.connection_.reset(connection);
  if (result == SQLITE_OK) return database;
  return Status(Code::io_error,
                fmt::format("Cannot open \"{}\": {}.", path, sqlite3_errstr(result)));
}

Result<Database> Database::open_read_only(const std::string& path) {
  TESSERA_ASSIGN(Database database, open(path, uri_of(path, "mode=ro&immutable=1"),
                                         SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX));
  TESSERA_TRY(database.run("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"));
  return database;
}

Result<Database> Database::open_disposable(const std::string& path) {
  // Whoever writes is alone with it.
  TESSERA_ASSIGN(Database database,
                 open(path, uri_of(path, "mode=rw"), SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX));
  TESSERA_TRY(database.run(
      "PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8'; PRAGMA auto_vacuum = NONE;"
      "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;"));
  return database;
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return error_of(connection_.get(), "use");
}

Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return error_of(connection_.get(), "read");
  }
  return Statement(statement);
}

Result<bool> Database::has_table(std::string_view name) const {
  TESSERA_ASSIGN(Statement tables,
                 prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"));
  tables.bind(name);
  return tables.next();
}

Result<bool> Database::has_column(std::string_view table, std::string_view column) const {
  TESSERA_ASSIGN(Statement columns, prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?"));
  columns.bind(table, column);
  return columns.next();
}

}  // namespace tessera::storage
