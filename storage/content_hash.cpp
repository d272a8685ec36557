// SPDX-License-Identifier: Apache-2.0
#include "storage/content_hash.h"

#include <fmt/format.h>

#include <type_traits>
#include <vector>

#include "storage/checksum.h"
#include "storage/record_sql.h"

namespace tessera::storage {
namespace {

/// The type's number, then the value.
void add_column(const Statement& rows, int column, Checksum& checksum) {
  const int type = rows.type(column);
  checksum.add(std::int64_t{type});
  switch (type) {
    case SQLITE_INTEGER: return checksum.add(rows.integer(column));
    case SQLITE_FLOAT: return checksum.add(rows.real(column));
    case SQLITE_TEXT: return checksum.add(rows.text(column));
    case SQLITE_BLOB: return checksum.add(rows.blob(column));
    default: return;
  }
}

/// As if the row had the text in place of its number.
void add_text(const Statement& rows, int column, const Texts& texts, Checksum& checksum) {
  const auto text = texts.find(rows.integer(column));
  checksum.add(std::int64_t{text ? SQLITE_TEXT : SQLITE_NULL});
  if (text) checksum.add(*text);
}

/// `interned`: which of the columns have numbers of `texts`.
Result<std::int64_t> add_rows(const Database& database, const std::string& sql, Checksum& checksum,
                              const Texts& texts, const std::vector<bool>& interned = {}) {
  TESSERA_ASSIGN(Statement rows, database.prepare(sql));
  for (std::int64_t count = 0;; ++count) {
    TESSERA_ASSIGN(const bool row, rows.next());
    if (!row) return count;
    for (int i = 0; i < rows.columns(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool text = at < interned.size() && interned[at];
      text ? add_text(rows, i, texts, checksum) : add_column(rows, i, checksum);
    }
  }
}

/// A table's rows, and their number.
template <class Record>
Status add_table(const Database& database, const Texts& texts, Checksum& checksum) {
  if constexpr (std::is_same_v<Record, RankStepChunkRow>) {
    TESSERA_ASSIGN(const bool rows, database.has_table(List<RankStepRow>::table));
    if (rows) return add_table<RankStepRow>(database, texts, checksum);
  }
  const auto hashed = [](const auto& column) { return column.hashed; };
  const char* where = "";
  if (std::is_same_v<Record, MetaRow>) where = " WHERE key NOT IN ('content_hash', 'version')";
  std::vector<bool> interned(List<Record>::key == Key::arrival ? 1 : 0);  // its id
  for_each_column<Record>([&](const auto& column) {
    if (column.hashed) interned.push_back(column.interned);
  });
  const std::string sql = select_sql<Record>(hashed, nullptr, where, Selected::numbers);
  TESSERA_ASSIGN(const std::int64_t count, add_rows(database, sql, checksum, texts, interned));
  checksum.add(count);
  return {};
}

/// What came later is hashed only if there is any, so that traces without it keep their hash.
Status add_later(const Database& database, const std::string& sql, Checksum& checksum) {
  TESSERA_ASSIGN(const std::int64_t count, add_rows(database, sql, checksum, {}));
  if (count > 0) checksum.add(count);
  return {};
}

template <class Record>
Status add_later_table(const Database& database, Checksum& checksum) {
  TESSERA_ASSIGN(const bool there, database.has_table(List<Record>::table));
  if (!there) return {};
  return add_later(database, select_sql<Record>([](const auto&) { return true; }), checksum);
}

template <class... Records>
Status add_later_tables(const Database& database, Checksum& checksum, std::tuple<Records...>*) {
  Status status;
  ((status.ok() ? void(status = add_later_table<Records>(database, checksum)) : void()), ...);
  return status;
}

template <class... Records>
Status add_tables(const Database& database, Checksum& checksum, std::tuple<Records...>*) {
  Texts texts;
  TESSERA_TRY(texts.read(database));
  Status status;
  ((status.ok() ? void(status = add_table<Records>(database, texts, checksum)) : void()), ...);
  TESSERA_TRY(std::move(status));
  TESSERA_TRY(add_later_tables(database, checksum, static_cast<LaterTables*>(nullptr)));
  std::vector<LaterColumn> later;
  (append_later<Records>(later), ...);
  for (const LaterColumn& column : later) {
    TESSERA_ASSIGN(const bool there, database.has_column(column.table, column.name));
    if (there) TESSERA_TRY(add_later(database, column.sql, checksum));
  }
  return {};
}

}  // namespace

Result<std::string> content_hash_of(const Database& database) {
  Checksum checksum;
  TESSERA_TRY(add_tables(database, checksum, static_cast<HashedTables*>(nullptr)));
  return fmt::format("{:016x}", checksum.value());
}

}  // namespace tessera::storage
