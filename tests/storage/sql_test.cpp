// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "tests/storage/recording.h"

namespace tessera {
namespace {

/// Plain SQLite, as any tool would use it.
class Query {
 public:
  explicit Query(const std::string& path) {
    REQUIRE(sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query() { sqlite3_close(database_); }

  /// Rows of cells as text.
  std::vector<std::vector<std::string>> operator()(const char* sql) {
    std::vector<std::vector<std::string>> rows;
    sqlite3_stmt* statement = nullptr;
    INFO(sql);
    REQUIRE(sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) == SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      rows.emplace_back();
      for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
        rows.back().emplace_back(text != nullptr ? text : "NULL");
      }
    }
    sqlite3_finalize(statement);
    return rows;
  }
  std::string cell(const char* sql) {
    const auto rows = (*this)(sql);
    REQUIRE(rows.size() == 1);
    return rows[0].at(0);
  }

 private:
  sqlite3* database_ = nullptr;
};

template <class E>
void check_names(Query& query, const std::string& table, int count) {
  INFO(table);
  const auto rows = query(("SELECT id, name FROM " + table + " ORDER BY id").c_str());
  REQUIRE(rows.size() == static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    CHECK(rows[static_cast<std::size_t>(i)][0] == std::to_string(i));
    CHECK(rows[static_cast<std::size_t>(i)][1] == name_of(static_cast<E>(i)));
  }
  CHECK(name_of(static_cast<E>(count)) == "?");
}

test::Recording small_recording() {
  test::Recording recording;
  recording.info.run.name = "demo";
  recording.info.run.ranks = 4;
  recording.info.run.ranks_per_node = 2;
  recording.info.run.recorded_ranks = {1};
  recording.info.run.seed = 18446744073709551615ULL;
  recording.info.streams = {{0, "compute", StreamRole::compute},
                            {1, "all_gather", StreamRole::communication}};
  recording.info.communicators = {{0, "dp", 4, 1}};
  recording.ops = {{0,
                    OpKind::all_gather,
                    1,
                    0,
                    0,
                    0,
                    Phase::forward,
                    Reason::forward_prefetch,
                    "layer 1",
                    "model.1",
                    "gather 1",
                    Bytes{64},
                    DType::bfloat16,
                    0,
                    "ring",
                    {}},
                   {1,
                    OpKind::compute,
                    0,
                    -1,
                    0,
                    0,
                    Phase::forward,
                    Reason::none,
                    "layer 1",
                    "model.1",
                    "",
                    Bytes{0},
                    DType::float32,
                    2.5,
                    "",
                    {}}};
  recording.after = {{}, {0}};
  recording.buffers = {{0, "out", "layer 1", MemoryClass::all_gather_buffers, Bytes{64}}};
  recording.rank_steps.ranks = 4;
  return recording;
}

TEST_CASE("any SQLite tool reads a trace as text", "[storage][sql]") {
  const test::Folder folder("sql");
  test::write(small_recording(), folder / "run.tessera");
  Query query(folder / "run.tessera");
  CHECK(query.cell("PRAGMA application_id") == "1414746689");
  CHECK(query.cell("PRAGMA user_version") == "3");
  CHECK(query.cell("PRAGMA integrity_check") == "ok");
  CHECK(query.cell("SELECT value FROM meta WHERE key = 'seed'") == "18446744073709551615");
  CHECK(query.cell("SELECT name FROM run") == "demo");
  CHECK(query("SELECT rank, node, recorded FROM rank") ==
        std::vector<std::vector<std::string>>{
            {"0", "0", "0"}, {"1", "0", "1"}, {"2", "1", "0"}, {"3", "1", "0"}});
  CHECK(query("SELECT * FROM stream_view ORDER BY id") ==
        std::vector<std::vector<std::string>>{{"0", "compute", "compute"},
                                              {"1", "all_gather", "communication"}});
  CHECK(query("SELECT * FROM op_view ORDER BY id") ==
        std::vector<std::vector<std::string>>{
            {"0", "all_gather", "all_gather", "dp", "0", "0", "forward", "forward_prefetch",
             "layer 1", "model.1", "gather 1", "64", "bfloat16", "0.0", "ring"},
            {"1", "compute", "compute", "NULL", "0", "0", "forward", "", "layer 1", "model.1", "",
             "0", "float32", "2.5", ""}});
  CHECK(query("SELECT * FROM buffer_view") ==
        std::vector<std::vector<std::string>>{{"0", "out", "layer 1", "all-gather buffers", "64"}});
  CHECK(query.cell("SELECT after FROM op_after WHERE op = 1") == "0");
}

TEST_CASE("every view can be read and has a row for every row", "[storage][sql]") {
  const test::Folder folder("views");
  test::write(test::random_recording(51), folder / "run.tessera");
  Query query(folder / "run.tessera");
  for (const std::string table : {"stream", "op", "buffer", "diagnostic"}) {
    INFO(table);
    CHECK(query.cell(("SELECT count(*) FROM " + table).c_str()) ==
          query.cell(("SELECT count(*) FROM " + table + "_view").c_str()));
  }
  CHECK(query.cell("SELECT count(*) FROM peak_memory_view") ==
        query.cell("SELECT count(*) FROM peak_memory_class"));
}

TEST_CASE("the queries of the cookbook run", "[storage][sql]") {
  const test::Folder folder("cookbook");
  test::write(small_recording(), folder / "run.tessera");
  Query query(folder / "run.tessera");
  const std::string page =
      test::read_file(std::string(TESSERA_SOURCE_DIR) + "/docs/trace-format.md");
  int queries = 0;
  const std::string open = "```sql\n";
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    query(page.substr(at, page.find("```", at) - at).c_str());
    ++queries;
  }
  CHECK(queries >= 5);
}

TEST_CASE("the tables of names say what name_of says", "[storage][sql]") {
  const test::Folder folder("names");
  test::write(small_recording(), folder / "run.tessera");
  Query query(folder / "run.tessera");
  check_names<OpKind>(query, "op_kind", 10);
  check_names<Phase>(query, "phase", 5);
  check_names<Reason>(query, "reason", static_cast<int>(reason_last) + 1);
  check_names<DType>(query, "dtype", 7);
  check_names<MemoryClass>(query, "memory_class", memory_class_count);
}

}  // namespace
}  // namespace tessera
