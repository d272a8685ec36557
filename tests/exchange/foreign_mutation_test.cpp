// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile files of other tools: whatever is in them, reading ends, stays small, and
// fails with a sentence or gives a trace.
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

#include "exchange/import/pickle.h"
#include "tessera/exchange/import.h"
#include "tests/exchange/reading.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

namespace fs = std::filesystem;
using test::Random;

std::string bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t place_in(Random& random, const std::string& bytes) {
  return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size())));
}

/// Something that means much in one of the formats.
std::string interesting(Random& random) {
  const std::vector<std::string> all = {std::string(8, '\xff'),
                                        std::string(4, '\0'),
                                        std::string("\x7f\xff\xff\xff", 4),
                                        "-9223372036854775808",
                                        "18446744073709551615",
                                        "1e308",
                                        "\"\"",
                                        "[",
                                        "{",
                                        "]",
                                        "}",
                                        "h\x01",
                                        "q\x01",
                                        "N",
                                        "(",
                                        "u",
                                        "t",
                                        "R",
                                        "cos\nsystem\n",
                                        "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
                                        "\\ud800",
                                        "\x1b[2J",
                                        "SELECT",
                                        "\x80\x05",
                                        "null",
                                        "-1",
                                        "99999999"};
  return all[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(all.size())))];
}

void change(Random& random, std::string& bytes) {
  const std::size_t at = place_in(random, bytes);
  const std::size_t count =
      std::min<std::size_t>(1 + place_in(random, bytes) % 300, bytes.size() - at);
  switch (random.below(7)) {
    case 0: bytes.resize(at + 1); return;
    case 1: bytes.erase(at, count); return;
    case 2: bytes.replace(at, count, count, static_cast<char>(random.next())); return;
    case 3: bytes.insert(at, interesting(random)); return;
    case 4: {
      const std::string word = interesting(random);
      bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
      return;
    }
    case 5: {  // a part, again and again
      const std::string part = bytes.substr(at, count);
      const std::int64_t times = random.chance(10) ? 2000 : random.below(20);
      for (std::int64_t i = 0; i < times; ++i) bytes.insert(at, part);
      return;
    }
    default:
      for (std::int64_t i = 0; i <= random.below(20); ++i) {
        bytes[place_in(random, bytes)] = static_cast<char>(random.next());
      }
  }
}

using TableColumn = std::pair<std::string, std::string>;

int add_column(void* to, int, char** text, char**) {
  static_cast<std::vector<TableColumn>*>(to)->emplace_back(text[0], text[1]);
  return 0;
}

/// Rows and statements that a damaged disk would not write, but somebody might.
void change_rows(Random& random, const fs::path& path) {
  sqlite3* connection = nullptr;
  if (sqlite3_open(path.c_str(), &connection) != SQLITE_OK) return;
  std::vector<TableColumn> columns;
  sqlite3_exec(connection,
               "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
               " WHERE t.type = 'table'",
               add_column, &columns, nullptr);
  if (!columns.empty()) {
    const auto& [table, column] =
        columns[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(columns.size())))];
    const std::vector<std::string> values = {
        "-1",    "0",    "1e300",     "9223372036854775807", "-9223372036854775808", "'text'",
        "x'00'", "NULL", "'\x1b[2J'", "zeroblob(100000)",    "'step 9999999999'"};
    const std::string value =
        values[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(values.size())))];
    const std::string endless =
        " AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS \"" +
        column + "\" FROM r";
    const std::vector<std::string> statements = {
        "DROP TABLE \"" + table + "\"",
        "ALTER TABLE \"" + table + "\" DROP COLUMN \"" + column + "\"",
        "DROP TABLE \"" + table + "\"; CREATE VIEW \"" + table + "\"" + endless,
        "ALTER TABLE \"" + table + "\" ADD COLUMN more AS (zeroblob(10000000))",
        "DROP TABLE \"" + table + "\"; CREATE TABLE \"" + table + "\" (start, \"end\", \"" +
            column + "\" AS (hex(zeroblob(30000000))))",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3000)"
        " INSERT INTO \"" +
            table + "\" SELECT t.* FROM \"" + table + "\" t, r",
        "UPDATE OR REPLACE \"" + table + "\" SET \"" + column + "\" = " + value,
        "UPDATE OR REPLACE \"" + table + "\" SET \"" + column + "\" = " + value +
            " WHERE rowid % 3 = 1"};
    sqlite3_exec(connection, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", nullptr,
                 nullptr, nullptr);
    sqlite3_exec(connection,
                 statements[static_cast<std::size_t>(
                                random.below(static_cast<std::int64_t>(statements.size())))]
                     .c_str(),
                 nullptr, nullptr, nullptr);
  }
  sqlite3_close(connection);
}

std::int64_t number_of(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

std::int64_t peak_memory_until_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

bool is_one_sentence(const std::string& message) {
  return message.size() > 20 && message.ends_with('.') && message.find('\n') == std::string::npos;
}

/// Looks at everything as far as a reader may go.
void walk(TreeValue value, int depth) {
  static_cast<void>(value.integer());
  static_cast<void>(value.real());
  static_cast<void>(value.text().size());
  static_cast<void>(value["size"].kind());
  if (depth > 20) return;
  walk(value.arguments(), depth + 1);
  for (TreeItems items(value); items.next();) walk(items.value(), depth + 1);
}

TEST_CASE("no mutated file of another tool crashes a reader, runs for long or takes much",
          "[exchange][mutation]") {
  const std::string name = GENERATE(
      as<std::string>(), "memory_snapshot.pickle", "flight_missing_rank_0.pickle",
      "flight_missing_rank_0.json", "nsys.sqlite", "rpd.rpd", "rocpd3.db", "rocpd4.db",
      "chakra.0.et", "execution_trace_102.json", "execution_trace_rank_1.json", "inspector.0.log");
  const test::TemporaryFolder folder;
  const fs::path path = fs::path(folder.path()) / ("mutated_" + name);
  const std::string out = folder.path() + "/out.tessera";
  const std::string original = bytes_of_file(data_path(name));
  const bool database = original.starts_with("SQLite format 3");
  const std::int64_t before = peak_memory_until_now();
  const std::int64_t first = number_of("TESSERA_MUTATION_SEED", 1);
  const std::int64_t count = number_of("TESSERA_MUTATIONS", test::generated(150));
  std::int64_t imported = 0, largest = 0;
  double slowest = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    INFO(name << " TESSERA_MUTATION_SEED=" << seed << " TESSERA_MUTATIONS=1");
    Random random(static_cast<std::uint64_t>(seed));
    std::string bytes = original;
    const bool by_rows = database && random.chance(50);
    for (std::int64_t i = by_rows ? 1 : 0; i <= random.below(3); ++i) change(random, bytes);
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (by_rows) change_rows(random, path);
    largest = std::max(largest, static_cast<std::int64_t>(fs::file_size(path)));
    const auto start = std::clock();
    const Result<Imported> done = import_traces({path.string()}, out);
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    slowest = std::max(slowest, took);
    CHECK(took < 5);
    if (done.ok()) {
      ++imported;
      fs::remove(out);
    } else {
      INFO(done.status().message());
      CHECK(is_one_sentence(done.status().message()));
      CHECK_FALSE(fs::exists(out));
    }
  }
  const std::int64_t grown = peak_memory_until_now() - before;
  if (count > 1000) {
    WARN(name << ": " << imported << " of " << count << " imported, slowest " << slowest
              << " s of CPU, " << (grown >> 20) << " MiB for files up to " << (largest >> 10)
              << " KiB");
  }
#ifndef TESSERA_SANITIZED
  CHECK(grown < 4 * largest + (64 << 20));
#endif
}

TEST_CASE("no mutated pickle crashes the machine that reads it, of whatever protocol",
          "[exchange][mutation]") {
  const int protocol = GENERATE(range(0, 6));
  const std::string original = bytes_of_file(data_path("values.p" + std::to_string(protocol)));
  const std::int64_t first = number_of("TESSERA_MUTATION_SEED", 1);
  const std::int64_t count = number_of("TESSERA_MUTATIONS", test::generated(500));
  std::int64_t parsed = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    INFO("protocol " << protocol << " TESSERA_MUTATION_SEED=" << seed << " TESSERA_MUTATIONS=1");
    Random random(static_cast<std::uint64_t>(seed));
    std::string bytes = original;
    for (std::int64_t i = 0; i <= random.below(3); ++i) change(random, bytes);
    const auto size = static_cast<std::int64_t>(bytes.size());
    const Result<Tree> tree = parse_pickle(std::move(bytes));
    if (!tree.ok()) continue;
    ++parsed;
    CHECK(tree->memory() <= 3 * size + (25 << 20));
    walk(tree->root(), 0);
  }
  if (count >= 100) CHECK(parsed > 0);
}

}  // namespace
}  // namespace tessera::exchange
