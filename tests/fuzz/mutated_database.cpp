// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutated_database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "storage/chunk.h"
#include "tests/fuzz/mutated_bytes.h"

namespace tessera::test {
namespace {

struct CloseCopy {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using DatabaseCopy = std::unique_ptr<sqlite3, CloseCopy>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// In memory.
DatabaseCopy copy_of(const std::string& bytes) {
  sqlite3* raw = nullptr;
  sqlite3_open(":memory:", &raw);
  DatabaseCopy database(raw);
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
  std::memcpy(copy, bytes.data(), bytes.size());
  sqlite3_deserialize(raw, "main", copy, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  // A table may have become a view without an end before the next change is made.
  constexpr int instructions_max = 50'000'000;
  sqlite3_progress_handler(
      raw, instructions_max, [](void*) { return 1; }, nullptr);
  return database;
}

std::string bytes_of(sqlite3* database) {
  sqlite3_int64 size = 0;
  unsigned char* const bytes = sqlite3_serialize(database, "main", &size, 0);
  std::string out(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  sqlite3_free(bytes);
  return out;
}

Statement prepare(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  sqlite3_prepare_v2(database, sql.c_str(), -1, &raw, nullptr);
  return Statement(raw);
}

/// A table of packed data. What all have, and the two parts of the key beside the rank.
struct ChunkTable {
  const char *name, *stream, *seq;
};
constexpr std::array chunk_tables = {ChunkTable{"span_chunk", "stream", "seq"},
                                     ChunkTable{"memory_chunk", "-1", "seq"},
                                     ChunkTable{"rank_step_chunk", "-2", "step"}};

/// Another content of one chunk, with the checksum of it.
void forge_chunk(sqlite3* database, Random& random) {
  const ChunkTable& table =
      chunk_tables[static_cast<std::size_t>(random.below(std::ssize(chunk_tables)))];
  const auto rows = prepare(database, fmt::format("SELECT count(*) FROM {}", table.name));
  if (sqlite3_step(rows.get()) != SQLITE_ROW) return;
  const std::int64_t count = sqlite3_column_int64(rows.get(), 0);
  if (count == 0) return;
  const auto read = prepare(
      database, fmt::format("SELECT rank, {}, {}, count, t0, t1, data FROM {} LIMIT 1 OFFSET {}",
                            table.stream, table.seq, table.name, random.below(count)));
  if (sqlite3_step(read.get()) != SQLITE_ROW) return;
  const auto number = [&](int column) { return sqlite3_column_int64(read.get(), column); };
  storage::ChunkHeader header{static_cast<Rank>(number(0)),
                              static_cast<std::int32_t>(number(1)),
                              number(2),
                              number(3),
                              number(4),
                              number(5)};
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(read.get(), 6));
  std::string data(size, '\0');
  if (size > 0) std::memcpy(data.data(), sqlite3_column_blob(read.get(), 6), size);
  if (random.chance(85)) mutate_bytes(data, random);
  if (random.chance(20)) header.count = random.below(random.chance(50) ? 20'000 : 4);
  if (random.chance(10)) header.t0 = -(std::int64_t{1} << random.below(60));
  if (random.chance(10)) header.t1 = std::int64_t{1} << random.below(60);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(data.data());
  const std::int64_t checksum = storage::chunk_checksum(header, {first, data.size()});
  const auto write = prepare(
      database, fmt::format("UPDATE {} SET count = ?, t0 = ?, t1 = ?, checksum = ?, data = ?"
                            " WHERE rank = ? AND {} = ? AND {} = ?",
                            table.name, table.stream, table.seq));
  if (write == nullptr) return;
  int next = 1;
  for (const std::int64_t value : {header.count, header.t0, header.t1, checksum}) {
    sqlite3_bind_int64(write.get(), next++, value);
  }
  sqlite3_bind_blob64(write.get(), next++, data.data(), data.size(), SQLITE_STATIC);
  for (const std::int64_t value :
       {std::int64_t{header.rank}, std::int64_t{header.stream}, header.seq}) {
    sqlite3_bind_int64(write.get(), next++, value);
  }
  sqlite3_step(write.get());
}

std::string odd_value(Random& random) {
  constexpr std::array values = {"1e300",          "-1e300",          "'text'", "x'00'", "NULL",
                                 "'\x1b[2J'",      "zeroblob(50000)", "''",     "1.5",   "'9e999'",
                                 "'step 9999999'", "char(0)",         "'{}'"};
  if (random.chance(60)) return odd_number(random);
  return values[static_cast<std::size_t>(random.below(std::ssize(values)))];
}

}  // namespace

bool MutableDatabase::is_database(const std::string& bytes) {
  return bytes.starts_with("SQLite format 3");
}

MutableDatabase::MutableDatabase(std::string bytes) : bytes_(std::move(bytes)) {
  const DatabaseCopy database = copy_of(bytes_);
  const auto read =
      prepare(database.get(),
              "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
              " WHERE t.type = 'table'");
  while (sqlite3_step(read.get()) == SQLITE_ROW) {
    const auto text = [&](int column) {
      return std::string(reinterpret_cast<const char*>(sqlite3_column_text(read.get(), column)));
    };
    columns_.emplace_back(text(0), text(1));
    chunks_ = chunks_ || text(0) == "span_chunk";
  }
}

std::string MutableDatabase::statement(Random& random) const {
  const auto& [table, column] =
      columns_[static_cast<std::size_t>(random.below(std::ssize(columns_)))];
  const std::string value = odd_value(random);
  const std::string row =
      fmt::format("(SELECT \"{}\" FROM \"{}\" LIMIT 1 OFFSET {})", column, table, random.below(9));
  const std::int64_t kind = random.below(100);
  if (kind < 45) {
    return fmt::format("UPDATE OR REPLACE \"{0}\" SET \"{1}\" = {2} WHERE \"{1}\" = {3}", table,
                       column, value, row);
  }
  if (kind < 60) {
    return fmt::format("UPDATE OR REPLACE \"{}\" SET \"{}\" = {}", table, column, value);
  }
  if (kind < 70) {
    return fmt::format("UPDATE OR REPLACE \"{0}\" SET \"{1}\" = \"{1}\" + {2}", table, column,
                       odd_number(random));
  }
  if (kind < 80) {
    return fmt::format("DELETE FROM \"{}\" WHERE \"{}\" = {}", table, column, row);
  }
  const std::string drop = fmt::format("DROP TABLE \"{}\"", table);
  if (kind < 84) return drop;
  if (kind < 88) return fmt::format("ALTER TABLE \"{}\" DROP COLUMN \"{}\"", table, column);
  if (kind < 90) {
    return fmt::format(
        "{}; CREATE VIEW \"{}\" AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT"
        " n + 1 FROM r) SELECT n AS \"{}\" FROM r",
        drop, table, column);
  }
  if (kind < 92) {
    return fmt::format("ALTER TABLE \"{}\" ADD COLUMN more AS (zeroblob(10000000))", table);
  }
  if (kind < 94) {
    return fmt::format(
        "{}; CREATE TABLE \"{}\" (start, \"end\", \"{}\" AS"
        " (hex(zeroblob(30000000))))",
        drop, table, column);
  }
  if (kind < 97) {
    return fmt::format("ALTER TABLE \"{}\" RENAME COLUMN \"{}\" TO \"other\"", table, column);
  }
  return fmt::format(
      "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {})"
      " INSERT OR IGNORE INTO \"{}\" SELECT t.* FROM \"{}\" t, r",
      random.chance(5) ? 2000 : 20, table, table);
}

std::string MutableDatabase::mutated(Random& random) const {
  const DatabaseCopy database = copy_of(bytes_);
  for (std::int64_t i = random.below(random.chance(30) ? 4 : 1); i >= 0; --i) {
    if (chunks_ && random.chance(60)) {
      forge_chunk(database.get(), random);
    } else if (!columns_.empty()) {
      sqlite3_exec(database.get(), statement(random).c_str(), nullptr, nullptr, nullptr);
    }
  }
  return bytes_of(database.get());
}

}  // namespace tessera::test
