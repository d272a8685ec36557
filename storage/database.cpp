// SPDX-License-Identifier: Apache-2.0
#include "storage/database.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace tessera::storage {
namespace {

Code code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_INTERRUPT:
    case SQLITE_ERROR: return Code::corrupt;  // our SQL is right, so the schema is not ours
    case SQLITE_NOMEM: return Code::out_of_memory;
    case SQLITE_CONSTRAINT: return Code::invalid_argument;
    default: return Code::io_error;
  }
}

Status error_of(sqlite3* connection, const char* doing) {
  const char* path = sqlite3_db_filename(connection, "main");
  if (sqlite3_errcode(connection) == SQLITE_INTERRUPT) {
    return {Code::corrupt, fmt::format("\"{}\" is damaged: to read it takes more work than a file "
                                       "of its size can need.",
                                       path != nullptr ? path : "")};
  }
  // SQLite quotes the SQL of the file, which may have lines of its own.
  std::string why = sqlite3_errmsg(connection);
  std::replace_if(
      why.begin(), why.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return {code_of(sqlite3_extended_errcode(connection)),
          fmt::format("Cannot {} \"{}\": {}.", doing, path != nullptr ? path : "", why)};
}

// A row takes less than 100 instructions of SQLite's machine, and 10 bytes at least.
constexpr std::int64_t instructions_at_least = 10'000'000, instructions_per_byte = 64;
constexpr int instructions_per_call = 10'000;

constexpr const char* immutable = "mode=ro&immutable=1";

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
  // Only the file of a recording under way, or of one that was stopped, has a log beside it.
  std::error_code none;
  const bool logged = std::filesystem::file_size(path + "-wal", none) > 0 && !none;
  constexpr int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX;
  Result<Database> database = open(path, uri_of(path, logged ? "mode=ro" : immutable), flags);
  // The transaction lasts as long as the connection, so that all queries see the same. In a folder
  // that cannot be written to, what is in the log alone stays unseen.
  if (database.ok() && logged && !database->run("BEGIN; SELECT 1 FROM sqlite_master").ok()) {
    database = open(path, uri_of(path, immutable), flags);
  }
  if (!database.ok()) return database;
  TESSERA_TRY(database->run("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"));
  std::uintmax_t size = std::filesystem::file_size(path, none);
  if (logged) size += std::filesystem::file_size(path + "-wal", none);
  database->limit_work(static_cast<std::int64_t>(size));
  return database;
}

Result<Database> Database::open_in_memory() {
  return open(":memory:", ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

int Database::on_work(void* limit) {
  return static_cast<WorkLimit*>(limit)->left.fetch_sub(1, std::memory_order_relaxed) <= 0 ? 1 : 0;
}

void Database::limit_work(std::int64_t file_size) {
  limit_ = std::make_unique<WorkLimit>();
  limit_->file_size = file_size;
  sqlite3_progress_handler(connection_.get(), instructions_per_call, on_work, limit_.get());
}

Result<Database> Database::open_recording(const std::string& path, int descriptor) {
  TESSERA_ASSIGN(Database database,
                 open(path, uri_of(path, "mode=rw"), SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX));
  // A log, so that what was committed survives this process and can be read meanwhile. Nobody waits
  // for the device: a commit is for the death of processes, not for that of the machine.
  TESSERA_TRY(database.run(
      "PRAGMA synchronous = OFF; PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8';"
      "PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
      "PRAGMA cache_size = -16384;"));
  database.descriptor_ = descriptor;
  return database;
}

// Room for what moves from the log to the file after a commit: if there is none the commit fails,
// and the log never holds what the file cannot take.
Status Database::reserve() {
#ifdef FALLOC_FL_KEEP_SIZE
  TESSERA_ASSIGN(Statement pages, prepare("SELECT page_count * page_size"
                                          " FROM pragma_page_count, pragma_page_size"));
  TESSERA_TRY(pages.next().status());
  const std::int64_t size = pages.integer(0);
  if (size <= reserved_) return {};
  const int failed = ::fallocate(descriptor_, 0, reserved_, size - reserved_) != 0 ? errno : 0;
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) {
    return {Code::io_error,
            fmt::format("Cannot write \"{}\": {}.", sqlite3_db_filename(connection_.get(), "main"),
                        std::generic_category().message(failed))};
  }
  reserved_ = size;  // also where a file system cannot reserve
#endif
  return {};
}

Status Database::commit() {
  TESSERA_TRY(reserve());
  TESSERA_TRY(run("COMMIT"));
  const int result = sqlite3_wal_checkpoint_v2(connection_.get(), nullptr,
                                               SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  const int code = result & 0xFF;
  if (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED) return {};
  return error_of(connection_.get(), "write");
}

Status Database::copy_to(const std::string& path) {
  // Who reads a recording under way is in a transaction, and what is copied needs none.
  if (sqlite3_get_autocommit(connection_.get()) == 0) TESSERA_TRY(run("COMMIT"));
  TESSERA_ASSIGN(Statement copy, prepare("VACUUM INTO ?"));
  const std::string uri = uri_of(path, "mode=rw");
  copy.bind(std::string_view(uri));
  return copy.run();
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return error_of(connection_.get(), "use");
}

void Database::allow_any_work() {
  sqlite3_progress_handler(connection_.get(), 0, nullptr, nullptr);
}

Result<Statement> Database::prepare(std::string_view sql) const {
  if (limit_ != nullptr) {
    limit_->left =
        (instructions_at_least + instructions_per_byte * limit_->file_size) / instructions_per_call;
  }
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
