// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile traces: whatever is in a file, reading it ends, stays small, and shows what
// was recorded or nothing.
//
// TESSERA_MUTATIONS=100000 runs more of them, TESSERA_MUTATION_SEED=17 begins at another seed.
#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "storage/checksum.h"
#include "storage/chunk.h"
#include "storage/content_hash.h"
#include "tessera/analysis/run.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::Random;

/// Plain SQLite on a file; what fails is as good a mutation as what works.
class Sql {
 public:
  explicit Sql(const fs::path& path) { sqlite3_open(path.c_str(), &connection_); }
  Sql(const Sql&) = delete;
  Sql& operator=(const Sql&) = delete;
  ~Sql() { sqlite3_close(connection_); }

  bool run(const std::string& sql) {
    return sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
  sqlite3* get() { return connection_; }

 private:
  sqlite3* connection_ = nullptr;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Makes the content hash right again, so that the rows themselves are what has to be checked.
void sign(const fs::path& path) {
  std::string hash;
  {
    const auto database = storage::Database::open_read_only(path.string());
    if (!database.ok()) return;
    const auto found = storage::content_hash_of(*database);
    if (!found.ok()) return;
    hash = *found;
  }
  Sql(path).run("UPDATE meta SET value = '" + hash + "' WHERE key = 'content_hash'");
}

/// A recorded trace with two ranks left of eight, so that thousands of readings take seconds.
void write_small_trace(const fs::path& path) {
  fs::copy_file(fs::path(TESSERA_SOURCE_DIR) / "traces/gpt2-8-h100.tessera", path,
                fs::copy_options::overwrite_existing);
  {
    Sql sql(path);
    REQUIRE(
        sql.run("DELETE FROM span_chunk WHERE rank NOT IN (0, 5);"
                "DELETE FROM memory_chunk WHERE rank NOT IN (0, 5);"
                "UPDATE rank SET recorded = rank IN (0, 5); VACUUM"));
  }
  sign(path);
}

struct Shown {
  bool failed = false;      // an error was reported
  bool unfinished = false;  // a warning is due
  std::uint64_t digest = 0;
};

void add_lanes(const std::vector<storage::Lane>& lanes, storage::Checksum& sum) {
  for (const storage::Lane& lane : lanes) {
    sum.add(std::int64_t{lane.rank} << 32 | lane.stream);
    for (const std::int32_t op : lane.op) sum.add(std::int64_t{op});
    for (const auto* column : {&lane.begin, &lane.ready, &lane.end}) {
      for (const Time time : *column) sum.add(time);
    }
  }
}

void add_memory(const storage::MemorySeries& series, storage::Checksum& sum) {
  for (std::size_t i = 0; i < series.time.size(); ++i) {
    sum.add(series.time[i]);
    sum.add(std::int64_t{series.buffer[i]});
    sum.add(static_cast<std::int64_t>(series.memory_class[i]));
    for (const auto* column : {&series.delta, &series.allocated, &series.reserved}) {
      sum.add((*column)[i].value);
    }
  }
}

void add_tables(const analysis::Trace& trace, storage::Checksum& sum) {
  for (const storage::OpRow& op : trace.ops()) {
    for (const std::int64_t number :
         {std::int64_t{op.id}, static_cast<std::int64_t>(op.kind), std::int64_t{op.stream},
          std::int64_t{op.step}, static_cast<std::int64_t>(op.reason), op.bytes.value}) {
      sum.add(number);
    }
    for (const std::string* text : {&op.unit, &op.module, &op.label})
      sum.add(std::string_view(*text));
    if (op.id % 16 != 0) continue;
    for (const std::int32_t after : trace.waited_for(op.id)) sum.add(std::int64_t{after});
  }
  for (const auto* column : {&trace.steps().begin, &trace.steps().end, &trace.steps().exposed}) {
    for (const Time time : *column) sum.add(time);
  }
  for (const PeakMemory& peak : trace.peaks()) {
    for (const Bytes bytes : peak.by_class) sum.add(bytes.value);
  }
  for (const auto& row : trace.diagnostics()) sum.add(std::string_view(row.message));
  const TraceRun& run = trace.run();
  for (const std::string* text : {&run.name, &run.model, &run.scheme, &run.cluster, &run.options}) {
    sum.add(std::string_view(*text));
  }
  for (const Rank rank : run.recorded_ranks) sum.add(std::int64_t{rank});
}

/// Everything that any command reads.
Shown show(const fs::path& path) {
  Shown shown;
  storage::Checksum sum;
  const auto trace = analysis::Trace::open(path.string());
  if (!trace.ok()) return {.failed = true};
  shown.unfinished = trace->info().unfinished;
  shown.failed = !analysis::report_of(*trace).ok() || !trace->reader().buffers().ok();
  add_tables(*trace, sum);
  constexpr Time last = std::numeric_limits<Time>::max();
  for (const Rank rank : trace->run().recorded_ranks) {
    const auto lanes = trace->reader().lanes(rank, std::numeric_limits<Time>::min(), last);
    const auto memory = trace->reader().memory(rank);
    shown.failed = shown.failed || !lanes.ok() || !memory.ok();
    if (lanes.ok()) add_lanes(*lanes, sum);
    if (memory.ok()) add_memory(*memory, sum);
  }
  static_cast<void>(trace->step_range(0));
  static_cast<void>(trace->slowest_recorded());
  shown.digest = sum.value();
  return shown;
}

std::string pick(Random& random, const std::vector<std::string>& words) {
  return words[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(words.size())))];
}

std::string any_value(Random& random) {
  return pick(random, {"-1", "0", "1", "7", "8", "100", "1000000000", "-5", "2147483648", "1e300",
                       "4611686018427387904", "9223372036854775807", "-9223372036854775808",
                       "'text'", "x'00'", "NULL", "1.5", "'\x1b[2J'", "zeroblob(100000)"});
}

/// "table.column" of the schema, as SQLite lists them.
std::vector<std::pair<std::string, std::string>> columns_of(const fs::path& path) {
  std::vector<std::pair<std::string, std::string>> columns;
  Sql sql(path);
  sqlite3_exec(
      sql.get(),
      "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
      " WHERE t.type = 'table'",
      [](void* out, int, char** text, char**) {
        static_cast<std::vector<std::pair<std::string, std::string>>*>(out)->emplace_back(text[0],
                                                                                          text[1]);
        return 0;
      },
      &columns, nullptr);
  return columns;
}

using Columns = std::vector<std::pair<std::string, std::string>>;

void change_bytes(Random& random, std::string& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto place = [&] { return static_cast<std::size_t>(random.below(size)); };
  switch (random.below(4)) {
    case 0: bytes.resize(place()); return;
    case 1: {  // a page in place of another
      constexpr std::size_t page = 4096;
      const std::size_t from = place() / page * page, to = place() / page * page;
      bytes.replace(to, page, bytes.substr(from, page));
      return;
    }
    case 2: {
      const std::size_t at = place();
      const std::size_t count = std::min<std::size_t>(1 + place() % 5000, bytes.size() - at);
      bytes.replace(at, count, count, static_cast<char>(random.next()));
      return;
    }
    default:
      for (std::int64_t i = 0; i <= random.below(20); ++i) {
        bytes[place()] = static_cast<char>(random.next());
      }
  }
}

/// Rows and statements that a damaged disk would not write, but somebody might.
void change_rows(Random& random, const Columns& columns, const fs::path& path) {
  Sql sql(path);
  sql.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
  const auto& [table, column] =
      columns[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(columns.size())))];
  const std::string some =
      " WHERE abs(\"" + column + "\") % 7 = " + std::to_string(random.below(7));
  const std::string endless =
      " AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT ";
  switch (random.below(8)) {
    case 0: sql.run("DELETE FROM " + table + some); return;
    case 1: sql.run("DROP TABLE " + table); return;
    case 2:
      sql.run("DROP TABLE " + table + "; CREATE VIEW " + table + endless + "n AS " + column +
              " FROM r");
      return;
    case 3: sql.run("CREATE VIEW extra" + endless + "n FROM r"); return;
    case 4:
      sql.run("CREATE TRIGGER t AFTER INSERT ON " + table + " BEGIN DELETE FROM op; END");
      return;
    case 5:
      sql.run("ALTER TABLE " + table + " ADD COLUMN more AS (" + column + " || zeroblob(1000000))");
      return;
    default:
      sql.run("UPDATE OR REPLACE " + table + " SET \"" + column + "\" = " + any_value(random) +
              (random.chance(50) ? "" : some));
  }
}

/// A chunk whose checksum is right whatever is in it.
void forge_chunk(Random& random, const fs::path& path) {
  Sql sql(path);
  constexpr std::array streams = {0, storage::all_streams, storage::memory_stream};
  storage::ChunkHeader header{random.chance(50) ? 0 : 5,
                              streams[static_cast<std::size_t>(random.below(3))],
                              0,
                              1 + random.below(4096),
                              random.below(1000),
                              0};
  const bool memory = header.stream == storage::memory_stream;
  header.t1 = random.chance(20) ? std::numeric_limits<Time>::max() : random.below(100'000'000);
  std::vector<std::uint8_t> data(static_cast<std::size_t>(8 + random.below(60)));
  for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random.next());
  // Columns of one value for all.
  for (std::size_t i = 0; i < std::min<std::size_t>(18, data.size()) && random.chance(95); ++i)
    data[i] = i % 2 == 0 ? 1 : data[i] & 127;
  if (random.chance(50)) data.resize(memory ? 16 : header.stream < 0 ? 18 : 8);
  sqlite3_stmt* insert = nullptr;
  const std::string text =
      memory ? "INSERT OR REPLACE INTO memory_chunk VALUES (?1, ?3, ?4, ?5, ?6, ?7, ?8)"
             : "INSERT OR REPLACE INTO span_chunk VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
  const std::int64_t count = random.chance(20) ? 20'000 : 1;
  sql.run("PRAGMA synchronous = OFF; BEGIN");
  sqlite3_prepare_v2(sql.get(), text.c_str(), -1, &insert, nullptr);
  for (header.seq = 0; header.seq < count && insert != nullptr; ++header.seq) {
    sqlite3_bind_int64(insert, 1, header.rank);
    if (!memory) sqlite3_bind_int64(insert, 2, header.stream);
    sqlite3_bind_int64(insert, 3, header.seq);
    sqlite3_bind_int64(insert, 4, header.count);
    sqlite3_bind_int64(insert, 5, header.t0);
    sqlite3_bind_int64(insert, 6, header.t1);
    sqlite3_bind_int64(insert, 7, storage::chunk_checksum(header, data));
    sqlite3_bind_blob(insert, 8, data.data(), static_cast<int>(data.size()), SQLITE_STATIC);
    sqlite3_step(insert);
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  sql.run("COMMIT");
}

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

std::int64_t peak_memory_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST_CASE("no mutated trace crashes a reader, runs for long, takes much, or is shown as data",
          "[analysis][mutation]") {
  const test::TemporaryFolder folder;
  const fs::path whole = fs::path(folder.path()) / "whole.tessera";
  const fs::path mutated = fs::path(folder.path()) / "mutated.tessera";
  write_small_trace(whole);
  const std::string original = bytes_of(whole);
  const Columns columns = columns_of(whole);
  const Shown right = show(whole);
  REQUIRE_FALSE(right.failed);
  const std::int64_t memory_before = peak_memory_now();
  const std::int64_t first = number_from("TESSERA_MUTATION_SEED", 1);
  const std::int64_t count = number_from("TESSERA_MUTATIONS", 2000);
  std::int64_t refused = 0, same = 0, largest = 0;
  double slowest = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    INFO("TESSERA_MUTATION_SEED=" << seed << " TESSERA_MUTATIONS=1");
    Random random(static_cast<std::uint64_t>(seed));
    const bool forged = random.chance(25);
    std::string bytes = original;
    const bool by_rows = random.chance(40);
    if (!by_rows && !forged) change_bytes(random, bytes);
    write_bytes(mutated, bytes);
    if (by_rows) change_rows(random, columns, mutated);
    if (forged && random.chance(30)) forge_chunk(random, mutated);
    if (forged) sign(mutated);
    largest = std::max(largest, static_cast<std::int64_t>(fs::file_size(mutated)));
    const double start = cpu_seconds();
    const Shown shown = show(mutated);
    const double took = cpu_seconds() - start;
    slowest = std::max(slowest, took);
    CHECK(took < 5);
    if (shown.failed) {
      ++refused;
      continue;
    }
    ++same;
    if (!forged && !shown.unfinished) CHECK(shown.digest == right.digest);
  }
  const std::int64_t grown = peak_memory_now() - memory_before;
  WARN(count << " mutations from seed " << first << ": " << refused << " refused, " << same
             << " shown; slowest " << slowest << " s of CPU; " << grown / 1024 / 1024
             << " MiB above the whole one");
#ifndef TESSERA_SANITIZED
  CHECK(grown < 4 * largest + (64 << 20));
#endif
  CHECK(refused > count / 4);
}

}  // namespace
}  // namespace tessera
