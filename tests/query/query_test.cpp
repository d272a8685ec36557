// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <filesystem>
#include <limits>

#include "query/text.h"
#include "tessera/storage/trace_writer.h"
#include "tests/query/answers.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using test::answer;
using test::Random;

TEST_CASE("span has every span that the reader has", "[query]") {
  query::Query query = test::open_example();
  const auto reader =
      storage::TraceReader::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  std::int64_t count = 0, durations = 0, waits = 0, samples = 0;
  for (const Rank rank : reader->info().run.recorded_ranks) {
    const auto lanes = reader->lanes(rank, 0, std::numeric_limits<Time>::max());
    for (const storage::Lane& lane : *lanes) {
      count += static_cast<std::int64_t>(lane.op.size());
      for (std::size_t i = 0; i < lane.op.size(); ++i) {
        durations += lane.end[i] - lane.begin[i];
        waits += lane.ready[i] - lane.begin[i];
      }
    }
    samples += static_cast<std::int64_t>(reader->memory(rank)->time.size());
  }
  REQUIRE(count > 0);
  const std::string sums = fmt::format("{},{},{}\n", count, durations, waits);
  CHECK(answer(query, "SELECT count(*), sum(duration), sum(wait) FROM span") ==
        "count(*),sum(duration),sum(wait)\n" + sums);
  CHECK(
      answer(query, "SELECT count(*) AS n, sum(end - begin) AS d, total(wait) AS w FROM op_rank") ==
      fmt::format("n,d,w\n{},{},{:.10g}\n", count, durations, static_cast<double>(waits)));
  CHECK(answer(query, "SELECT count(*) AS n FROM memory_sample") ==
        fmt::format("n\n{}\n", samples));
  // What was never released is what is still held.
  CHECK(answer(query,
               "SELECT rank, sum(bytes) AS b FROM allocation WHERE end IS NULL"
               " GROUP BY rank") ==
        answer(query, "SELECT rank, sum(delta) AS b FROM memory_sample GROUP BY rank"));
}

/// A condition, and the same so that no table can see it (a + in front of a column).
std::pair<std::string, std::string> random_condition(Random& random,
                                                     const std::vector<std::string>& columns) {
  std::string seen, hidden;
  for (std::int64_t i = 0; i <= random.below(3); ++i) {
    const std::string column =
        columns[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(columns.size())))];
    const bool time = column == "begin" || column == "end" || column == "time";
    const std::vector<std::string> signs = {"=", "<", "<=", ">", ">=", "IN", "<>", "IS"};
    const std::string sign = signs[static_cast<std::size_t>(random.below(8))];
    const auto value = [&]() -> std::string {
      if (random.chance(5)) return "'x'";
      if (random.chance(5)) return "NULL";
      if (random.chance(5)) return "3.5";
      if (random.chance(5)) return "9223372036854775807";
      if (random.chance(5)) return "-9223372036854775807";
      // Times that occur, and their neighbours.
      if (time && random.chance(50)) {
        return fmt::format("(SELECT end + {} FROM rank_step WHERE step = 0 AND rank = {})",
                           random.below(3) - 1, random.below(8));
      }
      return std::to_string(random.below(time ? 60'000'000 : column == "op" ? 900 : 9));
    };
    const std::string right = sign == "IN" ? fmt::format("({}, {})", value(), value()) : value();
    const std::string glue = seen.empty() ? "" : " AND ";
    seen += glue + column + " " + sign + " " + right;
    hidden += glue + "+" + column + " " + sign + " " + right;
  }
  return {seen, hidden};
}

TEST_CASE("a condition that a table sees gives the rows that SQLite would choose",
          "[query][property]") {
  query::Query query = test::open_example();
  for (std::uint64_t seed = 0; seed < test::generated(120); ++seed) {
    Random random(seed);
    const bool spans = random.chance(70);
    const std::string table = spans               ? random.chance(70) ? "span" : "op_rank"
                              : random.chance(50) ? "memory_sample"
                                                  : "allocation";
    const std::vector<std::string> columns =
        spans                   ? std::vector<std::string>{"rank", "stream", "op", "begin", "end"}
        : table == "allocation" ? std::vector<std::string>{"rank", "begin", "end"}
                                : std::vector<std::string>{"rank", "time"};
    const auto [seen, hidden] = random_condition(random, columns);
    const std::string start =
        "SELECT count(*), min(" + columns[1] + "), max(rank), sum(" + columns.back() + " % 1000)" +
        (table == "op_rank" ? ", sum(exposed)" : "") + " FROM " + table + " WHERE ";
    INFO("seed=" << seed << " " << table << " WHERE " << seen);
    CHECK(answer(query, start + seen) == answer(query, start + hidden));
  }
}

TEST_CASE("a blob is shown as SQL reads it, and how much of a long one is not", "[query]") {
  query::Query query = test::open_example();
  CHECK(answer(query, "SELECT x'00fF41' AS b, x'' AS none, zeroblob(40) AS long") ==
        "b,none,long\nx'00ff41',x'',x'" + std::string(64, '0') + "' and 8 more bytes\n");
  CHECK(answer(query, "SELECT hex(zeroblob(40)) AS h") == "h\n" + std::string(80, '0') + "\n");
}

TEST_CASE("a query that would take all memory ends with a sentence", "[query]") {
  query::Query query = test::open_example();
  query::limit_memory(32 << 20);
  const Status status = query.run(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c ORDER BY x",
      {[](const auto&) {}, [](const auto&) {}});
  query::limit_memory(0);
  CHECK(status.code() == Code::out_of_memory);
  CHECK(status.message() == "The query needs more memory than there is for it.");
  CHECK(answer(query, "SELECT 1 AS one") == "one\n1\n");
}

/// The run and its steps of the example, written by this version.
std::string write_steps_anew(const std::string& path) {
  const auto reader =
      storage::TraceReader::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  const storage::RankSteps steps = *reader->rank_steps();
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  (*writer)->begin(reader->info().run);
  const auto ranks = static_cast<std::size_t>(steps.ranks);
  for (std::int32_t step = 0; step < steps.steps; ++step) {
    const auto of_step = [&](const auto& column) {
      return std::span(column).subspan(static_cast<std::size_t>(step) * ranks, ranks);
    };
    (*writer)->rank_steps({step, of_step(steps.begin), of_step(steps.end), of_step(steps.compute),
                           of_step(steps.communication), of_step(steps.exposed),
                           of_step(steps.blocking), of_step(steps.wait),
                           of_step(steps.peak_allocated), of_step(steps.peak_reserved)});
  }
  REQUIRE((*writer)->finish().ok());
  return path;
}

TEST_CASE("of very many ranks and steps rank_step is read in parts, with the same answers",
          "[query]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/many.tessera";
  constexpr Rank ranks = 1024;
  constexpr std::int32_t steps = 520;  // more than are kept in memory
  const auto of = [](std::int32_t step, Rank rank) { return Time{7919} * step % 1009 + rank % 13; };
  {
    auto writer = storage::TraceWriter::create(path);
    REQUIRE(writer.ok());
    TraceRun run;
    run.name = "many";
    run.options = "{}";
    run.ranks = ranks;
    (*writer)->begin(run);
    const std::vector<Bytes> none(ranks);
    const std::vector<Time> zero(ranks);
    for (std::int32_t step = 0; step < steps; ++step) {
      std::vector<Time> compute, begin(ranks, step * 2000), end(ranks, step * 2000 + 2000);
      for (Rank rank = 0; rank < ranks; ++rank) compute.push_back(of(step, rank));
      (*writer)->rank_steps({step, begin, end, compute, zero, zero, zero, zero, none, none});
    }
    REQUIRE((*writer)->finish().ok());
  }
  auto query = query::Query::open(path);
  REQUIRE(query.ok());
  Time all = 0, of_rank = 0;
  for (std::int32_t step = 0; step < steps; ++step) {
    for (Rank rank = 0; rank < ranks; ++rank) all += of(step, rank);
    of_rank += of(step, 700);
  }
  CHECK(answer(*query, "SELECT count(*) AS n, sum(compute) AS s, max(step) AS m FROM rank_step") ==
        fmt::format("n,s,m\n{},{},{}\n", ranks * steps, all, steps - 1));
  CHECK(answer(*query, "SELECT count(*) AS n, sum(compute) AS s FROM rank_step WHERE rank = 700") ==
        fmt::format("n,s\n{},{}\n", steps, of_rank));
  CHECK(answer(*query, "SELECT compute AS c FROM rank_step WHERE step = 519 AND rank = 3") ==
        fmt::format("c\n{}\n", of(519, 3)));
  CHECK(answer(*query, "SELECT count(*) AS n FROM rank_step WHERE step = 520") == "n\n0\n");
  // Two cursors at different places.
  CHECK(answer(*query,
               "SELECT sum(b.compute - a.compute) AS d FROM rank_step a JOIN rank_step b ON "
               "b.rank = a.rank AND b.step = a.step + 400 WHERE a.rank = 5 AND a.step < 100") ==
        [&] {
          Time sum = 0;
          for (std::int32_t step = 0; step < 100; ++step) sum += of(step + 400, 5) - of(step, 5);
          return fmt::format("d\n{}\n", sum);
        }());
}

TEST_CASE("what asks for steps in their order is not sorted again", "[query]") {
  query::Query query = test::open_example();
  for (const std::string order : {"step", "step, rank", "rank"}) {
    INFO(order);
    const std::string start = "SELECT step, sum(compute) AS c, count(*) AS n FROM rank_step ";
    const std::string plan = answer(query, "EXPLAIN QUERY PLAN " + start + "GROUP BY " + order);
    CHECK((plan.find("TEMP B-TREE") == std::string::npos) == (order != "rank"));
  }
  // A sum that hides the column from the table is sorted.
  const std::string start = "SELECT step AS s, max(compute) AS c, count(*) AS n FROM rank_step ";
  CHECK(answer(query, start + "GROUP BY step ORDER BY step") ==
        answer(query, start + "GROUP BY step + 0 ORDER BY step + 0"));
  CHECK(answer(query, start + "WHERE rank = 3 GROUP BY step") ==
        answer(query, start + "WHERE rank = 3 GROUP BY step + 0"));
}

TEST_CASE("rank_step has the same rows, whether a file has them as rows or packed", "[query]") {
  const test::TemporaryFolder folder;
  query::Query rows = test::open_example();
  auto packed = query::Query::open(write_steps_anew(folder.path() + "/packed.tessera"));
  REQUIRE(packed.ok());
  CHECK(answer(*packed, "SELECT count(*) AS n FROM rank_step") == "n\n16\n");
  for (const char* where : {"1", "step = 1", "rank = 5", "rank = 5 AND step = 1", "step = 2",
                            "rank = -1", "rank = 8", "step = 'x'", "rank > 5", "wait = 0",
                            "rank IN (1, 3) AND step IN (0, 1, 7)", "step = NULL"}) {
    const std::string sql =
        "SELECT * FROM rank_step WHERE " + std::string(where) + " ORDER BY step, rank";
    INFO(sql);
    CHECK(answer(*packed, sql) == answer(rows, sql));
  }
}

TEST_CASE("a row of CSV has all its cells, also if the first ones are empty", "[query]") {
  CHECK(query::csv_line({"", "", "3"}) == ",,3\n");
  CHECK(query::csv_line({"", "2"}) == ",2\n");
  CHECK(query::csv_line({""}) == "\"\"\n");
}

TEST_CASE("a query reads and nothing else, and its mistakes are sentences", "[query]") {
  query::Query query = test::open_example();
  for (const char* sql : {"DELETE FROM op", "ATTACH 'x' AS y", "PRAGMA user_version = 3",
                          "CREATE TEMP TABLE t (a)", "DROP VIEW op_view", "VACUUM"}) {
    INFO(sql);
    CHECK(answer(query, sql) == "A query can only read: use SELECT.");
  }
  CHECK(answer(query, "SELECT absent FROM op").find("no such column: absent") != std::string::npos);
  CHECK(answer(query, "SELECT 1; SELECT 2").find("more than one statement") != std::string::npos);
  for (const char* sql : {"SELECT ?", "SELECT :rank", "SELECT id FROM op WHERE id = $1"}) {
    CHECK(answer(query, sql).find("has a parameter") != std::string::npos);
  }
  CHECK(answer(query, " ") == "The query is empty.");
  CHECK(answer(query, "SELECT 1;\n") == "1\n1\n");
}

TEST_CASE("a view of the file is not what is run", "[query]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/run.tessera";
  std::filesystem::copy_file(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera", path);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database,
                     "DROP VIEW op_view; CREATE VIEW op_view AS WITH RECURSIVE r(n) AS (SELECT 1"
                     " UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
                     nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  auto query = query::Query::open(path);
  REQUIRE(query.ok());
  CHECK(answer(*query, "SELECT count(*) AS n FROM op_view") == "n\n426\n");
}

TEST_CASE("other programs load the tables as an extension", "[query]") {
  sqlite3* database = nullptr;
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";
  REQUIRE(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, nullptr);
  char* error = nullptr;
  const int loaded = sqlite3_load_extension(database, TESSERA_TRACE_EXTENSION, nullptr, &error);
  INFO((error != nullptr ? error : ""));
  REQUIRE(loaded == SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(database, "SELECT count(*) FROM span", -1, &statement, nullptr) ==
          SQLITE_OK);
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  CHECK(sqlite3_column_int64(statement, 0) == 3408);
  sqlite3_finalize(statement);
  sqlite3_close(database);
}

}  // namespace
}  // namespace tessera
