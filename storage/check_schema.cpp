// SPDX-License-Identifier: Apache-2.0
#include "storage/check_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "storage/record_sql.h"
#include "storage/schema.h"

namespace tessera::storage {
namespace {

struct Thing {
  std::string type, sql;
};
using Things = std::map<std::string, Thing, std::less<>>;  // by name
using Names = std::map<std::int64_t, std::string>;

constexpr std::array name_tables = {"op_kind",      "phase",       "reason",  "dtype",
                                    "memory_class", "stream_role", "severity"};

/// `what` quotes names of the file, which may have lines of their own.
Status no_trace(std::string what) {
  std::replace_if(
      what.begin(), what.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return {Code::corrupt, fmt::format("It is no trace, or a damaged one: {}.", what)};
}

/// The statement without comments, and with one blank at most between its words.
std::string normal(std::string_view sql) {
  std::string words;
  bool blank = false;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (sql.substr(i, 2) == "--") i = std::min(sql.find('\n', i), sql.size());
    if (i >= sql.size()) break;
    const char c = sql[i];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      blank = true;
      continue;
    }
    const bool joint = c == '(' || c == ')' || c == ',' || words.empty() || words.back() == '(' ||
                       words.back() == ')' || words.back() == ',';
    if (blank && !joint) words += ' ';
    blank = false;
    words += c;
  }
  return words;
}

Result<Things> things_of(const Database& database) {
  Things things;
  TESSERA_TRY(for_each_row(
      database, "SELECT type, name, tbl_name, sql FROM sqlite_master",
      [&](const Statement& row) -> Status {
        const std::string_view type = row.text(0), name = row.text(1);
        // SQLite's own, for the keys of tables.
        const bool own =
            type == "index" && row.type(3) == SQLITE_NULL && name.starts_with("sqlite_autoindex_");
        if (own) return {};
        const bool first =
            things.emplace(name, Thing{std::string(type), normal(row.text(3))}).second;
        if (first) return {};
        return no_trace(fmt::format("it has two things named \"{}\"", name));
      }));
  return things;
}

Result<Names> names_in(const Database& database, const char* table) {
  Names names;
  TESSERA_TRY(for_each_row(database, fmt::format("SELECT id, name FROM {} ORDER BY id", table),
                           [&](const Statement& row) {
                             names[row.integer(0)] = row.text(1);
                             return Status();
                           }));
  return names;
}

/// The statement of the table that version 1 has in the place of `rank_step_chunk`.
std::string rank_step_statement() {
  using Record = RankStepRow;
  std::string columns;
  for_each_column<Record>([&](const auto& column) {
    columns += fmt::format("{} {} NOT NULL,", column.name, sql_type<Record>(column));
  });
  return fmt::format("CREATE TABLE {} ({}PRIMARY KEY (step, rank)) WITHOUT ROWID",
                     List<Record>::table, columns);
}

/// What schema.sql makes, and what it made before.
struct Expected {
  Things things;
  std::map<std::string, Names> names;
};

Result<Expected> make_expected() {
  Expected expected;
  TESSERA_ASSIGN(Database database, Database::open_in_memory());
  TESSERA_TRY(database.run(schema_sql));
  TESSERA_TRY(database.run(rank_step_statement().c_str()));
  TESSERA_ASSIGN(expected.things, things_of(database));
  for (const char* table : name_tables) {
    TESSERA_ASSIGN(expected.names[table], names_in(database, table));
  }
  return expected;
}

Status check_thing(const Things& known, const std::string& name, const Thing& thing) {
  const auto expected = known.find(name);
  if (expected == known.end()) {
    return no_trace(fmt::format("it has {} {} \"{}\", which no trace has",
                                thing.type == "index" ? "an" : "a", thing.type, name));
  }
  const std::string& type = expected->second.type;
  if (thing.type != type) {
    return no_trace(fmt::format("\"{}\" is a {} in place of a {}", name, thing.type, type));
  }
  // Nothing reads the views of a file.
  if (type == "view" || thing.sql == expected->second.sql) return {};
  return no_trace(fmt::format("table \"{}\" has other columns than in a trace", name));
}

/// The words of enumerators: fewer are older, more are newer.
Status check_names(const Database& database, const Expected& expected) {
  for (const auto& [table, known] : expected.names) {
    TESSERA_ASSIGN(const Names names, names_in(database, table.c_str()));
    for (const auto& [id, name] : names) {
      const auto ours = known.find(id);
      if (ours == known.end() || ours->second == name) continue;
      return no_trace(
          fmt::format("{} {} is called \"{}\" in place of \"{}\"", table, id, name, ours->second));
    }
  }
  return {};
}

bool came_later(const std::string& table) {
  return []<class... Records>(const std::string& name, std::tuple<Records...>*) {
    return ((name == List<Records>::table) || ...);
  }(table, static_cast<LaterTables*>(nullptr));
}

}  // namespace

Status check_schema(const Database& database) {
  static const Result<Expected> made = make_expected();
  TESSERA_TRY(made.status());
  const Expected& expected = made.value();
  TESSERA_ASSIGN(const Things things, things_of(database));
  for (const auto& [name, thing] : things) {
    TESSERA_TRY(check_thing(expected.things, name, thing));
  }
  const char *const rows = List<RankStepRow>::table, *const chunks = List<RankStepChunkRow>::table;
  const bool older = things.contains(rows);
  if (older && things.contains(chunks)) return no_trace("it has the summary of steps twice");
  for (const auto& [name, thing] : expected.things) {
    const bool needed =
        thing.type == "table" && !came_later(name) && name != (older ? chunks : rows);
    if (needed && !things.contains(name)) {
      return no_trace(fmt::format("table \"{}\" is missing", name));
    }
  }
  return check_names(database, expected);
}

}  // namespace tessera::storage
