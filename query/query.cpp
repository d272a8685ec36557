// SPDX-License-Identifier: Apache-2.0
#include "query/query.h"

#include <fmt/format.h>

#include <algorithm>

#include "query/module.h"
#include "query/table.h"
#include "storage/open_trace.h"
#include "storage/schema.h"

namespace tessera::query {
namespace {

/// Reading and nothing else, whatever the SQL says.
int authorize(void*, int action, const char*, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    default: return SQLITE_DENY;
  }
}

/// Our own views in the place of the file's: whatever theirs say is never run.
std::string own_views() {
  constexpr std::string_view create = "CREATE VIEW ";
  const std::string_view schema = storage::schema_sql;
  std::string sql = "PRAGMA temp_store = MEMORY;";
  for (std::size_t at = schema.find(create); at != std::string_view::npos;
       at = schema.find(create, at + 1)) {
    const std::size_t end = schema.find(';', at);
    sql += "CREATE TEMP VIEW ";
    sql += schema.substr(at + create.size(), end + 1 - at - create.size());
  }
  return sql;
}

Value value_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT:
      return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)),
                         static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
      Blob blob{.begin = {}, .size = static_cast<std::int64_t>(size)};
      if (size > 0) blob.begin.assign(bytes, std::min(size, Blob::shown));
      return blob;
    }
    default: return std::monostate();
  }
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Prepared = std::unique_ptr<sqlite3_stmt, Finalize>;

/// Ends statements of a connection as soon as somebody wishes it.
class StopWhen {
 public:
  StopWhen(sqlite3* connection, const std::atomic<bool>* stop) : connection_(connection) {
    // SQLite hands back what it was given; `asked` only reads.
    if (stop != nullptr) {
      sqlite3_progress_handler(connection_, instructions_between, asked,
                               const_cast<std::atomic<bool>*>(stop));
    }
  }
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;
  ~StopWhen() { sqlite3_progress_handler(connection_, 0, nullptr, nullptr); }

 private:
  static constexpr int instructions_between = 10'000;
  static int asked(void* stop) { return *static_cast<const std::atomic<bool>*>(stop) ? 1 : 0; }

  sqlite3* connection_;
};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n;") == std::string_view::npos;
}

}  // namespace

void limit_memory(std::int64_t bytes) { sqlite3_hard_heap_limit64(bytes); }

struct Query::State {
  storage::TraceReader reader;
  storage::Database database;
};

Query::Query(std::unique_ptr<State> state) : state_(std::move(state)) {}
Query::Query(Query&&) noexcept = default;
Query& Query::operator=(Query&&) noexcept = default;
Query::~Query() = default;

const storage::TraceInfo& Query::info() const { return state_->reader.info(); }

Result<Query> Query::open(const std::string& path) {
  TESSERA_ASSIGN(storage::TraceReader reader, storage::TraceReader::open(path));
  TESSERA_TRY(reader.verify_tables());
  TESSERA_ASSIGN(storage::Database database, storage::open_trace(path));
  TESSERA_TRY(database.run(own_views().c_str()));
  database.allow_any_work();
  TESSERA_TRY(register_tables(database.connection(), path, /*verified=*/true));
  // A virtual table declares its columns when it is met for the first time, which is not reading.
  for (const TableKind& kind : tables()) {
    TESSERA_TRY(database.prepare(fmt::format("SELECT 1 FROM {}", kind.name)).status());
  }
  sqlite3_set_authorizer(database.connection(), authorize, nullptr);
  return Query(std::make_unique<State>(State{std::move(reader), std::move(database)}));
}

Status Query::run(const std::string& sql, const RowSink& sink, const std::atomic<bool>* stop) {
  sqlite3* const connection = state_->database.connection();
  const StopWhen stopping(connection, stop);
  const auto error = [&] {
    if (stop != nullptr && *stop) return Status(Code::cancelled, "The query was stopped.");
    if (sqlite3_errcode(connection) == SQLITE_NOMEM) {
      return Status(Code::out_of_memory, "The query needs more memory than there is for it.");
    }
    const bool denied = sqlite3_errcode(connection) == SQLITE_AUTH;
    return Status(Code::invalid_argument,
                  denied ? "A query can only read: use SELECT."
                         : fmt::format("The query fails: {}.", sqlite3_errmsg(connection)));
  };
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  const int prepared =
      sqlite3_prepare_v2(connection, sql.c_str(), static_cast<int>(sql.size()), &raw, &rest);
  const Prepared statement(raw);
  if (prepared != SQLITE_OK) return error();
  if (raw == nullptr) return {Code::invalid_argument, "The query is empty."};
  if (!is_blank(rest)) {
    return {Code::invalid_argument, "The query has more than one statement; ask one at a time."};
  }
  if (sqlite3_bind_parameter_count(raw) > 0) {
    return {Code::invalid_argument,
            "The query has a parameter (?, :name, @name or $name), which nobody gives a value: "
            "write the value itself."};
  }
  std::vector<std::string> names;
  for (int i = 0; i < sqlite3_column_count(raw); ++i)
    names.emplace_back(sqlite3_column_name(raw, i));
  sink.columns(names);
  std::vector<Value> row(names.size());
  for (;;) {
    const int step = sqlite3_step(raw);
    if (step == SQLITE_DONE) return {};
    if (step != SQLITE_ROW) return error();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = value_of(raw, static_cast<int>(i));
    sink.row(row);
    if (stop != nullptr && *stop) return error();
  }
}

}  // namespace tessera::query
