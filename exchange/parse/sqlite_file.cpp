// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/sqlite_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

namespace tessera::exchange {
namespace {

constexpr int ops_per_call = 1 << 16;
constexpr int tables_max = 1000;
constexpr int text_max = 16 << 20;  // bytes of one value

/// Ends queries that take more work than a database of that size can need.
struct Work {
  std::int64_t left = 0;
};

int use_work(void* data) { return --static_cast<Work*>(data)->left < 0 ? 1 : 0; }

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::int64_t size_of_file(sqlite3* database) {
  std::int64_t size = 0;
  sqlite3_stmt* statement = nullptr;
  const char* sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    size = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  return size;
}

void protect(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, text_max);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
}

}  // namespace

bool SqliteRow::null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
std::int64_t SqliteRow::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double SqliteRow::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string_view SqliteRow::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void SqliteFile::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

SqliteFile::SqliteFile(std::string path, std::unique_ptr<sqlite3, Close> database)
    : path_(std::move(path)), database_(std::move(database)) {}
SqliteFile::SqliteFile(SqliteFile&&) noexcept = default;
SqliteFile::~SqliteFile() = default;

Result<SqliteFile> SqliteFile::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  std::unique_ptr<sqlite3, Close> database(raw);
  if (code != SQLITE_OK) {
    return Status(Code::io_error, fmt::format("Cannot open \"{}\": {}.", path,
                                              raw ? sqlite3_errmsg(raw) : "no memory"));
  }
  protect(raw);
  SqliteFile file(path, std::move(database));
  // Virtual tables run code of their own.
  const std::string sql = fmt::format(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
      "ORDER BY name LIMIT {}",
      tables_max);
  TESSERA_TRY(file.rows(sql, [&](const SqliteRow& row) {
    file.tables_.emplace_back(row.text(0));
    return Status();
  }));
  return file;
}

bool SqliteFile::has_table(std::string_view name) const {
  return std::binary_search(tables_.begin(), tables_.end(), name);
}

Result<std::vector<std::string>> SqliteFile::columns(std::string_view table) const {
  std::vector<std::string> names;
  if (!has_table(table)) return names;
  TESSERA_TRY(rows(fmt::format("PRAGMA table_info({})", quoted(table)), [&](const SqliteRow& row) {
    names.emplace_back(row.text(1));
    return Status();
  }));
  return names;
}

Result<std::int64_t> SqliteFile::count(std::string_view table) const {
  std::int64_t count = 0;
  if (!has_table(table)) return count;
  TESSERA_TRY(
      rows(fmt::format("SELECT count(*) FROM {}", quoted(table)), [&](const SqliteRow& row) {
        count = row.integer(0);
        return Status();
      }));
  return count;
}

Status SqliteFile::rows(const std::string& sql,
                        const std::function<Status(const SqliteRow&)>& each) const {
  sqlite3* const database = database_.get();
  // Some 100 instructions for a row of 10 bytes, and as much again for a join or a sort.
  Work work{64 + size_of_file(database) * 64 / ops_per_call};
  sqlite3_progress_handler(database, ops_per_call, use_work, &work);
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(database, sql.c_str(), -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
  Status status;
  while (code == SQLITE_OK && status.ok()) {
    const int step = sqlite3_step(raw);
    if (step == SQLITE_ROW) status = each(SqliteRow(raw));
    if (step == SQLITE_DONE) break;
    if (step != SQLITE_ROW) code = step;
  }
  if (code != SQLITE_OK && status.ok()) status = broken();
  sqlite3_progress_handler(database, 0, nullptr, nullptr);
  return status;
}

Status SqliteFile::broken() const {
  const bool endless = sqlite3_errcode(database_.get()) == SQLITE_INTERRUPT;
  // SQLite quotes what the file says.
  std::string why = sqlite3_errmsg(database_.get());
  why.resize(std::min<std::size_t>(why.size(), 120));
  for (char& c : why) c = c < ' ' || c > '~' ? ' ' : c;
  return {
      Code::corrupt,
      fmt::format("\"{}\" is damaged: {}.", path_,
                  endless ? "reading it takes more work than a file of its size can need" : why)};
}

}  // namespace tessera::exchange
