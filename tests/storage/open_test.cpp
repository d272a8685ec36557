// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "storage/chunk.h"
#include "tests/random.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::TraceReader;
using test::Folder;
using test::random_recording;

void check_refused(const std::string& path, Code code, const std::string& part) {
  const auto reader = TraceReader::open(path);
  REQUIRE_FALSE(reader.ok());
  INFO(reader.status().message());
  CHECK(reader.status().code() == code);
  CHECK(reader.status().message().find(part) != std::string::npos);
  CHECK(reader.status().message().find(path) != std::string::npos);
}

/// Executes `sql` on the file with plain SQLite.
void change(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  INFO(sql);
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("each thing that is no trace has its own sentence", "[storage][open]") {
  const Folder folder("no_traces");
  check_refused(folder / "missing", Code::io_error, "There is no file");
  check_refused(folder / ".", Code::io_error, "is a directory");
  test::write_file(folder / "empty", "");
  check_refused(folder / "empty", Code::corrupt, "is empty");
  test::write_file(folder / "text", "once upon a time");
  check_refused(folder / "text", Code::corrupt, "no SQLite database");
  test::write_file(folder / "long_text", std::string(10'000, 'x'));
  check_refused(folder / "long_text", Code::corrupt, "no SQLite database");
  test::write_file(folder / "short", "SQLite format");
  check_refused(folder / "short", Code::corrupt, "is truncated: 13 bytes");
  change(folder / "other", "PRAGMA application_id = 7; CREATE TABLE t (a)");
  check_refused(folder / "other", Code::corrupt, "application_id 0x00000007");
  change(folder / "begun", "PRAGMA journal_mode = WAL");  // and then its writer was killed
  check_refused(folder / "begun", Code::corrupt, "nothing was recorded into it");
}

TEST_CASE("a newer format, an unfinished and a gutted trace are told apart", "[storage][open]") {
  const Folder folder("no_good_traces");
  const std::string path = folder / "run.tessera";
  const auto changed = [&](const std::string& sql) {
    test::write(random_recording(41), path);
    change(path, sql);
  };
  changed("PRAGMA user_version = 4");
  check_refused(path, Code::not_supported, "has trace format 4; this version reads up to 3");
  changed("PRAGMA user_version = 0");
  check_refused(path, Code::corrupt, "trace format 0");
  changed("DELETE FROM meta");
  check_refused(path, Code::corrupt, "stopped before anything was in it");
  changed("DROP TABLE stream");
  check_refused(path, Code::corrupt, "table \"stream\" is missing");
  changed("DELETE FROM run");
  check_refused(path, Code::corrupt, "0 ranks");
  changed("UPDATE meta SET value = '12x' WHERE key = 'seed'");
  check_refused(path, Code::corrupt, "meta.seed is \"12x\"");
  changed("UPDATE stream SET role = 99");
  check_refused(path, Code::not_supported, "stream role 99");
}

TEST_CASE("what is no part of a trace is refused before it is read", "[storage][open]") {
  const Folder folder("other_schemas");
  const std::string path = folder / "run.tessera";
  const std::string endless =
      " AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r";
  for (const auto& [sql, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"DROP TABLE rank; CREATE VIEW rank" + endless,
            "\"rank\" is a view in place of a table"},
           {"CREATE VIEW more" + endless, "it has a view \"more\", which no trace has"},
           {"CREATE TABLE more (a)", "it has a table \"more\", which no trace has"},
           {"CREATE TRIGGER more AFTER INSERT ON op BEGIN DELETE FROM op; END",
            "it has a trigger \"more\", which no trace has"},
           {"CREATE INDEX more ON op (bytes)", "it has an index \"more\", which no trace has"},
           {"ALTER TABLE op ADD COLUMN more", "table \"op\" has other columns"},
           {"ALTER TABLE op RENAME COLUMN flops TO work", "table \"op\" has other columns"},
           {"DROP TABLE op; CREATE TABLE op (id TEXT)", "table \"op\" has other columns"},
           {"UPDATE op_kind SET name = 'x' WHERE id = 3", "op_kind 3 is called \"x\""},
           {"UPDATE peak_memory SET end_rank = 9", "of the ranks [0, 9) in a run of 8"},
           {"DELETE FROM rank WHERE rank = 7", "it lists 7 of 8 ranks"},
           {"UPDATE op SET stream = 5", "runs on stream 5, which is not there"},
           {"UPDATE op SET communicator = 5", "uses communicator 5, which is not there"},
           {"UPDATE op SET label = 999999", "op.label is missing in a row"},
           {"UPDATE op SET bytes = 'many'", "op.bytes has another type in a row"},
           {"UPDATE op SET step = 3000000000", "op.step is 3000000000 in a row"},
           {"UPDATE diagnostic SET rank = 8", "is about rank 8 in a run of 8 ranks"}}) {
    INFO(sql);
    test::write(random_recording(41), path);
    change(path, sql);
    const auto reader = TraceReader::open(path);
    const auto damages =
        reader.ok() ? reader->find_damage() : Result<std::vector<std::string>>(reader.status());
    const std::string said = !damages.ok()      ? damages.status().message()
                             : damages->empty() ? ""
                                                : damages->front();
    INFO(said);
    CHECK(said.find(sentence) != std::string::npos);
  }
}

TEST_CASE("a small file that claims to hold much is refused before it is unpacked",
          "[storage][open]") {
  const Folder folder("bomb");
  const std::string path = folder / "run.tessera";
  test::write(random_recording(41), path);
  change(path,
         "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT "
         "INTO span_chunk SELECT 0, 0, i, 4096, 0, 0, 0, x'0100010001000100' FROM n");
  const auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  for (const Status& status : {reader->lanes(0, 0, 1).status(), reader->memory(0).status()}) {
    INFO(status.message());
    CHECK(status.code() == Code::corrupt);
    CHECK(status.message().find("more than any recording") != std::string::npos);
  }
}

TEST_CASE("more spans of a rank than the file has room for are not unpacked one by one",
          "[storage][open]") {
  const Folder folder("many_spans");
  const std::string path = folder / "run.tessera";
  test::write(random_recording(41), path);
  const std::vector<std::uint8_t> data = {0};
  std::string rows;
  for (std::int64_t seq = 100; seq < 200; ++seq) {
    const storage::ChunkHeader header{0, storage::all_streams, seq, 16384, 0, 0};
    rows +=
        fmt::format("{}({}, {}, {}, {}, 0, 0, {}, x'00')", rows.empty() ? "" : ", ", header.rank,
                    header.stream, seq, header.count, storage::chunk_checksum(header, data));
  }
  change(path, "INSERT INTO span_chunk VALUES " + rows);
  const auto damages = TraceReader::open(path)->find_damage();
  REQUIRE(damages.ok());
  const auto said = [&](const char* words) {
    return std::count_if(damages->begin(), damages->end(), [&](const std::string& damage) {
      return damage.find(words) != std::string::npos;
    });
  };
  CHECK(said("rank 0 has more spans than any recording of that size") == 1);
  CHECK(said("seq 199") == 0);
}

TEST_CASE("verify names each damage by itself", "[storage][open]") {
  const Folder folder("damages");
  const std::string path = folder / "run.tessera";
  test::write(random_recording(44), path);
  change(path,
         "UPDATE span_chunk SET checksum = checksum + 1 WHERE rank = 2;"
         "UPDATE memory_chunk SET count = 4000000000 WHERE rank = 4");
  const auto damages = TraceReader::open(path)->find_damage();
  REQUIRE(damages.ok());
  REQUIRE(damages->size() == 3);
  CHECK((*damages)[0].find("span chunk (rank 2, seq 0)") != std::string::npos);
  CHECK((*damages)[1].find("memory chunk (rank 4, seq 0)") != std::string::npos);
  CHECK((*damages)[2].find("content hash") != std::string::npos);
}

TEST_CASE("a recording before its run has begun is recognised as one", "[storage][open]") {
  const Folder folder("under_way");
  auto writer = storage::TraceWriter::create(folder / "run.tessera");
  REQUIRE(writer.ok());
  check_refused(folder / "run.tessera.partial", Code::corrupt, "stopped before anything");
  test::send(random_recording(42), **writer);
  REQUIRE((*writer)->finish().ok());
  CHECK(TraceReader::open(folder / "run.tessera").ok());
}

TEST_CASE("verify notices any change of content", "[storage][open]") {
  const Folder folder("changed");
  const std::string path = folder / "run.tessera";
  for (const char* sql : {"UPDATE run SET name = name || '!'",
                          "UPDATE rank SET node = 9 WHERE rank = 2",
                          "UPDATE op SET bytes = bytes + 1 WHERE id = (SELECT max(id) FROM op)",
                          "UPDATE string SET text = 'other' WHERE id = 1",
                          "DELETE FROM op_after WHERE after = 0",
                          "UPDATE rank_step_chunk SET t1 = t1 + 1 WHERE step = 1",
                          "UPDATE rank_step_chunk SET data = x'00' WHERE step = 1",
                          "DELETE FROM rank_step_chunk WHERE step = 2",
                          "UPDATE buffer SET bytes = 5",
                          "DELETE FROM peak_memory_class",
                          "INSERT INTO diagnostic VALUES (99, 0, '', 0, 0, 0, '')",
                          "DELETE FROM op_kernel WHERE rank = 7",
                          "UPDATE op_kernel SET time = time + 1",
                          "DELETE FROM op_kernel",
                          "UPDATE memory_shortage SET request = request + 1",
                          "UPDATE memory_block SET buffer = 3 WHERE shortage = 1",
                          "DELETE FROM span_chunk WHERE rank = 2",
                          "UPDATE span_chunk SET t0 = t0 - 1",
                          "UPDATE memory_chunk SET data = x'00'",
                          "DELETE FROM memory_chunk WHERE rank = 0",
                          "UPDATE meta SET value = '{}' WHERE key = 'options'"}) {
    INFO(sql);
    test::write(random_recording(43), path);
    change(path, sql);
    auto reader = TraceReader::open(path);
    REQUIRE(reader.ok());
    const Status status = reader->verify();
    INFO(status.message());
    CHECK(status.code() == Code::corrupt);
    CHECK(status.message().find(path) != std::string::npos);
  }
}

TEST_CASE("a trace may lack the tables that came later, as older ones do", "[storage][open]") {
  const Folder folder("without_later");
  const std::string path = folder / "run.tessera";
  test::Recording recording = random_recording(45);
  recording.kernels.clear();
  recording.shortages.clear();
  test::write(recording, path);
  change(path, "DROP TABLE op_kernel; DROP TABLE memory_shortage; DROP TABLE memory_block");
  auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
  test::check_equal(*reader, recording);
}

TEST_CASE("a damaged chunk is named by the call that reads it", "[storage][open]") {
  const Folder folder("damaged_chunk");
  const std::string path = folder / "run.tessera";
  test::write(random_recording(44), path);
  change(path,
         "UPDATE span_chunk SET checksum = checksum + 1 WHERE rank = 2;"
         "UPDATE memory_chunk SET count = 4000000000 WHERE rank = 2");
  auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  const Time last = std::numeric_limits<Time>::max();
  CHECK(
      reader->lanes(2, 0, last).status().message().find("span chunk (rank 2, seq 0) is damaged") !=
      std::string::npos);
  CHECK(reader->memory(2).status().message().find("memory chunk (rank 2, seq 0) is damaged") !=
        std::string::npos);
  CHECK(reader->lanes(0, 0, last).ok());
  CHECK(reader->memory(0).ok());
}

/// Opens `path` and reads all of it: an error, or exactly `recording`. True: the latter.
bool survives(const std::string& path, const test::Recording& recording) {
  auto reader = TraceReader::open(path);
  if (!reader.ok()) return false;
  const bool verified = reader->verify().ok();
  // Damaged or not, reading everything must be harmless.
  const bool read = reader->ops().ok() && reader->buffers().ok() && reader->rank_steps().ok() &&
                    reader->peak_memory().ok() && reader->diagnostics().ok();
  for (const Rank rank : recording.info.run.recorded_ranks) {
    const bool lanes = reader->lanes(rank, 0, std::numeric_limits<Time>::max()).ok();
    const bool memory = reader->memory(rank).ok();
    CHECK((lanes && memory) >= verified);
  }
  CHECK(read >= verified);
  if (verified) test::check_equal(*reader, recording);
  return verified;
}

TEST_CASE("a trace cut off anywhere is refused", "[storage][open]") {
  const Folder folder("cut_off");
  const test::Recording recording = random_recording(45, {.ops = 300, .samples_per_rank = 300});
  test::write(recording, folder / "run.tessera");
  const std::string bytes = test::read_file(folder / "run.tessera");
  CHECK(survives(folder / "run.tessera", recording));
  for (std::size_t size = 0; size < bytes.size(); size += 512) {
    INFO("size=" << size);
    test::write_file(folder / "cut", bytes.substr(0, size));
    CHECK_FALSE(survives(folder / "cut", recording));
    // The same with the length kept, as after a power failure.
    test::write_file(folder / "cut",
                     bytes.substr(0, size) + std::string(bytes.size() - size, '\0'));
    survives(folder / "cut", recording);
  }
}

TEST_CASE("random damage never crashes a reader, and verified content is right",
          "[storage][open]") {
  const Folder folder("random_damage");
  test::Recording recording = random_recording(46);
  recording.info.run.version = "1";  // the one text that verify does not cover
  test::write(recording, folder / "run.tessera");
  const std::string original = test::read_file(folder / "run.tessera");
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    std::string bytes = original;
    for (std::int64_t i = 0; i <= random.below(30); ++i) {
      // Most of the first pages is the schema; damage goes mostly behind it.
      const std::int64_t first =
          random.chance(20) ? 0 : static_cast<std::int64_t>(bytes.size()) / 3;
      const std::int64_t at = first + random.below(static_cast<std::int64_t>(bytes.size()) - first);
      bytes[static_cast<std::size_t>(at)] = static_cast<char>(random.next());
    }
    test::write_file(folder / "damaged", bytes);
    if (!survives(folder / "damaged", recording)) ++refused;
  }
  CHECK(refused > 50);
}

}  // namespace
}  // namespace tessera
