// SPDX-License-Identifier: Apache-2.0
// The lists of storage/records.h against schema.sql and docs/trace-format.md, and what follows from
// a column that came later.
#include "storage/records.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "storage/content_hash.h"
#include "storage/record_sql.h"
#include "tests/storage/recording.h"

namespace tessera::storage {

/// A table whose last column older files lack.
struct Sample {
  std::int32_t id = 0;
  std::int64_t value = 0;
  Bytes extra{7};
};
template <>
struct List<Sample> {
  static constexpr const char* table = "sample";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &Sample::id, "", "key"), column("value", &Sample::value, "", "a number"),
      later(column("extra", &Sample::extra, "bytes", "what came later"))};
  static constexpr std::tuple<> unlisted = {};
};

namespace {

const std::string schema_path = std::string(TESSERA_SOURCE_DIR) + "/storage/schema.sql";
const std::string page_path = std::string(TESSERA_SOURCE_DIR) + "/docs/trace-format.md";

struct Line {
  std::string declaration, comment;
};

/// How schema.sql writes the table: a column a line, comments aligned.
template <class Record>
std::string statement_of() {
  constexpr Key key = List<Record>::key;
  const bool pair = key == Key::two || key == Key::three;
  const bool text_key = std::is_same_v<Record, MetaRow>;
  std::vector<Line> lines;
  if (key == Key::arrival) {
    lines.push_back({"id INTEGER PRIMARY KEY", "in order of arrival, from 1"});
  }
  std::string names;
  int index = 0;
  for_each_column<Record>([&](const auto& column) {
    const bool primary = key == Key::first && index == 0;
    if (pair && index < (key == Key::two ? 2 : 3)) {
      names += (names.empty() ? "" : ", ") + std::string(column.name);
    }
    const std::string unit = column.unit;
    lines.push_back({fmt::format("{} {} {}", column.name, sql_type<Record>(column),
                                 primary ? "PRIMARY KEY" : "NOT NULL"),
                     column.doc + (unit.empty() ? "" : " (" + unit + ")")});
    ++index;
  });
  std::size_t width = 0;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (pair || k + 1 < lines.size()) lines[k].declaration += ",";
    width = std::max(width, lines[k].declaration.size());
  }
  std::string text = fmt::format("CREATE TABLE {} (\n", List<Record>::table);
  for (const Line& line : lines) {
    text += fmt::format("  {:<{}}  -- {}\n", line.declaration, width, line.comment);
  }
  if (pair) text += fmt::format("  PRIMARY KEY ({})\n", names);
  return text + (pair || text_key ? ") WITHOUT ROWID;\n" : ");\n");
}

/// How docs/trace-format.md shows it.
template <class Record>
std::string page_table_of() {
  std::string text = fmt::format(
      "Table `{}`:\n\n| column | unit | meaning |\n| --- | --- | --- |\n", List<Record>::table);
  if (List<Record>::key == Key::arrival) text += "| `id` | | in order of arrival, from 1 |\n";
  for_each_column<Record>([&](const auto& column) {
    const std::string unit = column.unit;
    text += fmt::format("| `{}` |{}| {} |\n", column.name, unit.empty() ? " " : " " + unit + " ",
                        column.doc);
  });
  return text;
}

template <class F, class... Records>
void for_each_table(F use, std::tuple<Records...>*) {
  (use(static_cast<Records*>(nullptr)), ...);
}

template <class F>
void for_each_table(F use) {
  for_each_table(use, static_cast<HashedTables*>(nullptr));
  for_each_table(use, static_cast<OtherTables*>(nullptr));
  for_each_table(use, static_cast<LaterTables*>(nullptr));
}

/// Replaces what is in `text` from `begin` to the first `end` after it.
void replace(std::string& text, const std::string& begin, const std::string& end,
             const std::string& by) {
  INFO(begin);
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + begin.size());
  REQUIRE(to != std::string::npos);
  text.replace(from, to + end.size() - from, by);
}

/// Run by hand after a change of the lists.
TEST_CASE("write schema.sql and docs/trace-format.md by the lists", "[.update-records]") {
  std::string schema = test::read_file(schema_path), page = test::read_file(page_path);
  for_each_table([&]<class Record>(Record*) {
    const std::string table = List<Record>::table;
    const std::string statement = statement_of<Record>();
    const bool rowid = !statement.ends_with("ROWID;\n");
    replace(schema, "CREATE TABLE " + table + " (\n", rowid ? "\n);\n" : "\n) WITHOUT ROWID;\n",
            statement);
    if (table == "meta" || table == "string") return;
    replace(page, "Table `" + table + "`:\n\n", "\n\n", page_table_of<Record>() + "\n");
  });
  test::write_file(schema_path, schema);
  test::write_file(page_path, page);
}

TEST_CASE("schema.sql has the tables of the lists, column by column", "[storage][records]") {
  const std::string schema = test::read_file(schema_path);
  for_each_table([&]<class Record>(Record*) {
    INFO("expected:\n" << statement_of<Record>());
    CHECK(schema.find(statement_of<Record>()) != std::string::npos);
  });
}

TEST_CASE("the page of the format shows the tables of the lists", "[storage][records]") {
  const std::string page = test::read_file(page_path);
  for_each_table([&]<class Record>(Record*) {
    const std::string table = List<Record>::table;
    if (table == "meta" || table == "string") return;
    INFO("expected:\n" << page_table_of<Record>());
    CHECK(page.find(page_table_of<Record>() + "\n") != std::string::npos);
  });
  CHECK(page.find(page_table_of<RankStepRow>() + "\n") != std::string::npos);
}

/// An empty file with a table `sample` of these columns, to be used by `use`.
template <class F>
void with_samples(const std::string& create, F use) {
  const test::Folder folder("later_column");
  test::write_file(folder / "samples", "");
  auto database = Database::open_recording(folder / "samples", -1);
  REQUIRE(database.ok());
  REQUIRE(database->run(create.c_str()).ok());
  use(*database);
}

std::vector<std::int64_t> extras_of(const Database& database) {
  std::vector<std::int64_t> extras;
  const Status status = read_rows<Sample>(database, [&](const Sample& row) {
    extras.push_back(row.extra.value);
    return Status();
  });
  INFO(status.message());
  CHECK(status.ok());
  return extras;
}

TEST_CASE("a column that an older file lacks is as the record has it by default",
          "[storage][records]") {
  with_samples(
      "CREATE TABLE sample (id INTEGER PRIMARY KEY, value INTEGER);"
      "INSERT INTO sample VALUES (1, 10), (2, 20)",
      [](const Database& database) {
        CHECK(extras_of(database) == std::vector<std::int64_t>{7, 7});
        CHECK_FALSE(*database.has_column("sample", "extra"));
      });
  with_samples("CREATE TABLE sample (id INTEGER PRIMARY KEY, value INTEGER, extra INTEGER)",
               [](const Database& database) {
                 Insert<Sample> insert;
                 REQUIRE(insert.prepare(database).ok());
                 const auto intern = [](std::string_view) { return 0; };
                 REQUIRE(insert.run({1, 10, Bytes{0}}, intern).ok());
                 REQUIRE(insert.run({2, 20, Bytes{5}}, intern).ok());
                 CHECK(extras_of(database) == std::vector<std::int64_t>{0, 5});
               });
}

TEST_CASE("a later column is hashed by itself, and only where it says something",
          "[storage][records]") {
  CHECK(select_sql<Sample>([](const auto& column) { return column.hashed; }) ==
        "SELECT id, value FROM sample ORDER BY sample.id");
  std::vector<LaterColumn> columns;
  append_later<Sample>(columns);
  REQUIRE(columns.size() == 1);
  CHECK(columns[0].table == "sample");
  CHECK(columns[0].name == "extra");
  CHECK(columns[0].sql ==
        "SELECT sample.id, extra FROM sample WHERE extra NOT IN (0, '') ORDER BY sample.id");
}

TEST_CASE("a trace of the first version opens, and its hash is what it says",
          "[storage][records]") {
  auto reader = TraceReader::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  REQUIRE(reader.ok());
  CHECK(reader->info().run.backend == "simulator");
  CHECK(reader->verify().ok());
}

TEST_CASE("a recorded rank that the run does not have is damage", "[storage][records]") {
  const test::Folder folder("recorded_rank");
  test::write(test::random_recording(3), folder / "run.tessera");
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder / "run.tessera").c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, "UPDATE rank SET rank = 1000000000 WHERE rank = 6", nullptr, nullptr,
                     nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const auto reader = TraceReader::open(folder / "run.tessera");
  CHECK(reader.status().code() == Code::corrupt);
  CHECK(reader.status().message().find("rank 7 is listed in a run of 8 ranks") !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera::storage
