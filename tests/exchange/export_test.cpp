// SPDX-License-Identifier: Apache-2.0
#include "tessera/exchange/export.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/exchange/imports.h"

namespace tessera {
namespace {

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

using exchange::Exported;
using exchange::ExportFormat;

constexpr ExportFormat every_format[] = {ExportFormat::perfetto, ExportFormat::chrome,
                                         ExportFormat::csv, ExportFormat::sqlite,
                                         ExportFormat::memory_snapshot};

analysis::Trace example() {
  return test::require_value(
      analysis::Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera"));
}

struct Sums {
  std::int64_t spans = 0;
  Time time = 0;
  bool operator==(const Sums&) const = default;
};

Sums sums_of(const analysis::Trace& trace, const std::vector<Rank>& ranks) {
  Sums sums;
  for (const Rank rank : ranks) {
    const auto lanes = test::require_value(trace.reader().lanes(
        rank, std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max()));
    for (const auto& lane : lanes) {
      sums.spans += static_cast<std::int64_t>(lane.op.size());
      for (std::size_t i = 0; i < lane.op.size(); ++i) sums.time += lane.end[i] - lane.begin[i];
    }
  }
  return sums;
}

/// What a reader of protocol buffers sees, of one message.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = tag >> 3;
    text = {};
    switch (tag & 7) {
      case 0: value = varint(); break;
      case 1: take(8); break;
      case 2: text = take(varint()); break;
      default: FAIL("a kind of field that nobody writes: " << (tag & 7));
    }
    return true;
  }
  std::uint64_t field = 0, value = 0;
  std::string_view text;

 private:
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(!rest_.empty());
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return number;
    }
  }
  std::string_view take(std::uint64_t size) {
    REQUIRE(size <= rest_.size());
    const auto part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }
  std::string_view rest_;
};

/// Slices of a Perfetto trace, each begun and ended on its track.
Sums slices_of(const std::string& bytes) {
  Sums sums;
  std::map<std::uint64_t, std::vector<std::uint64_t>> open;
  for (Fields trace(bytes); trace.next();) {
    std::uint64_t time = 0, type = 0, track = 0;
    for (Fields packet(trace.text); packet.next();) {
      if (packet.field == 8) time = packet.value;
      if (packet.field != 11) continue;
      for (Fields event(packet.text); event.next();) {
        if (event.field == 9) type = event.value;
        if (event.field == 11) track = event.value;
      }
    }
    if (type == 1) open[track].push_back(time);
    if (type != 2) continue;
    REQUIRE(!open[track].empty());
    sums.time += static_cast<Time>(time - open[track].back());
    open[track].pop_back();
    ++sums.spans;
  }
  for (const auto& [track, begun] : open) CHECK(begun.empty());
  return sums;
}

Sums sums_by_sql(const std::string& path, const char* sql) {
  Sums sums;
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) == SQLITE_OK);
  REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
  sums = {sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1)};
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return sums;
}

/// Durations as the profiler's JSON has them: microseconds with three places.
Sums sums_of_chrome(const std::string& bytes, std::int64_t& memory) {
  Sums sums;
  const auto json = nlohmann::json::parse(bytes);
  for (const auto& event : json["traceEvents"]) {
    memory += event["name"] == "[memory]" ? 1 : 0;
    if (event["ph"] != "X" || event["args"].contains("made_up")) continue;
    if (event["cat"] == "user_annotation") continue;
    ++sums.spans;
    sums.time += std::llround(event["dur"].get<double>() * 1000);
  }
  return sums;
}

}  // namespace

TEST_CASE("every format has the spans of the trace, and their time", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  const std::vector<Rank> ranks = {0, 5};
  const Sums wanted = sums_of(trace, ranks);
  const auto exported = [&](ExportFormat format, const std::string& name) {
    return test::require_value(
        exchange::export_trace(trace, folder.path(name), {.format = format, .ranks = ranks}));
  };
  const Exported perfetto = exported(ExportFormat::perfetto, "p");
  CHECK(Sums{perfetto.spans, perfetto.span_time} == wanted);
  CHECK(slices_of(bytes_of_file(folder.path("p"))) == wanted);

  const Exported chrome = exported(ExportFormat::chrome, "rank{rank}.json");
  REQUIRE(chrome.files == std::vector{folder.path("rank0.json"), folder.path("rank5.json")});
  Sums of_files;
  std::int64_t memory = 0;
  for (const std::string& file : chrome.files) {
    const Sums one = sums_of_chrome(bytes_of_file(file), memory);
    of_files.spans += one.spans;
    of_files.time += one.time;
  }
  CHECK(of_files == wanted);
  CHECK(memory == chrome.memory_samples);

  exported(ExportFormat::csv, "spans.csv");
  const std::string csv = bytes_of_file(folder.path("spans.csv"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == wanted.spans + 1);

  const Exported rows = exported(ExportFormat::sqlite, "rows.sqlite");
  CHECK(sums_by_sql(folder.path("rows.sqlite"),
                    "SELECT count(*), sum(end - begin) FROM span JOIN op ON op.id = span.op") ==
        wanted);
  CHECK(sums_by_sql(folder.path("rows.sqlite"), "SELECT count(*), 0 FROM memory_sample").spans ==
        rows.memory_samples);

  const Exported snapshot = exported(ExportFormat::memory_snapshot, "memory.pickle");
  CHECK(snapshot.memory_samples == rows.memory_samples);
  const std::string pickle = bytes_of_file(folder.path("memory.pickle"));
  CHECK(pickle.starts_with("\x80\x02}("));
  CHECK(pickle.ends_with('.'));
}

TEST_CASE("every {rank} of a name is the rank, and its file has nobody else", "[export]") {
  const auto trace = example();
  for (const ExportFormat format : every_format) {
    const test::Imports folder;
    INFO(exchange::name_of(format));
    const Exported out = test::require_value(exchange::export_trace(
        trace, folder.path("r{rank}-{rank}"), {.format = format, .ranks = {3, 5}}));
    CHECK(out.files == std::vector{folder.path("r3-3"), folder.path("r5-5")});
    for (const Rank rank : {3, 5}) {
      const std::string alone = folder.path("alone" + std::to_string(rank));
      REQUIRE(exchange::export_trace(trace, alone, {.format = format, .ranks = {rank}}).ok());
      const auto bytes = [&](const std::string& path) { return bytes_of_file(path); };
      const std::string file = folder.path(fmt::format("r{0}-{0}", rank));
      if (format == ExportFormat::chrome) {  // whose rank is in the file, too
        CHECK(bytes(file).find(fmt::format("\"rank\": {}", rank)) != std::string::npos);
      } else {
        CHECK(bytes(file) == bytes(alone));
      }
    }
  }
}

TEST_CASE("no export takes the place of a folder or of a recording that was killed", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  std::filesystem::create_directory(folder.path("folder"));
  const std::string killed = folder.file("run.partial", "SQLite format 3, of a recording");
  for (const ExportFormat format : every_format) {
    INFO(exchange::name_of(format));
    for (const auto& [name, why] : {std::pair("folder", "folder: is a folder: name a file"),
                                    std::pair("run", "run.partial: exists and was not exported")}) {
      const auto done =
          exchange::export_trace(trace, folder.path(name), {.format = format, .ranks = {0}});
      REQUIRE_FALSE(done.ok());
      CHECK(done.status().message().find(why) != std::string::npos);
    }
    CHECK(bytes_of_file(killed) == "SQLite format 3, of a recording");
    CHECK_FALSE(std::filesystem::exists(folder.path("folder.partial")));
  }
}

TEST_CASE("memory that is not of a device is counted where a format does not hold it", "[export]") {
  const auto trace = test::require_value(
      analysis::Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/offload-nvme.tessera"));
  const test::Imports folder;
  const auto samples = [&](ExportFormat format, std::vector<std::string>& warnings) {
    const Exported done = test::require_value(
        exchange::export_trace(trace, folder.path("m"), {.format = format, .ranks = {0}}));
    warnings = done.warnings;
    return done.memory_samples;
  };
  std::vector<std::string> warnings;
  const std::int64_t all = samples(ExportFormat::sqlite, warnings);
  for (const ExportFormat format : {ExportFormat::chrome, ExportFormat::memory_snapshot}) {
    const std::int64_t held = samples(format, warnings);
    CHECK(held > 0);
    REQUIRE(held < all);
    CHECK(warnings.front() ==
          fmt::format("{} memory samples are not of a device and were left out", all - held));
  }
}

TEST_CASE("an exported snapshot is imported with the same memory", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  const std::string path = folder.path("rank0.pickle");
  const Exported out = test::require_value(
      exchange::export_trace(trace, path, {.format = ExportFormat::memory_snapshot, .ranks = {0}}));
  const auto back = test::require_value(folder.import({path}));
  for (const std::string& warning : back.warnings) {
    CHECK(warning.find("times") == std::string::npos);
  }
  const auto memory = test::require_value(folder.trace().reader().memory(0));
  CHECK(std::ssize(memory.time) >= out.memory_samples);
  const auto peak = [](const storage::MemorySeries& series) {
    return std::max_element(series.allocated.begin(), series.allocated.end())->value;
  };
  CHECK(peak(memory) == peak(test::require_value(trace.reader().memory(0))));
}

TEST_CASE("where one rank's file is somebody's, no rank's is written", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  folder.file("r7", "# Notes");
  CHECK_FALSE(
      exchange::export_trace(trace, folder.path("r{rank}"), {.format = ExportFormat::csv}).ok());
  CHECK_FALSE(std::filesystem::exists(folder.path("r0")));
}

TEST_CASE("an exported profile is imported with the same collectives and kernels", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  const Exported out = test::require_value(
      exchange::export_trace(trace, folder.path("rank{rank}.json"),
                             {.format = ExportFormat::chrome, .ranks = {0, 1, 2, 3, 4, 5, 6, 7}}));
  const auto done = test::require_value(folder.import(out.files));
  const auto back = folder.trace();
  std::map<OpKind, std::int64_t> before, after;
  for (const auto& op : trace.ops()) ++before[op.kind];
  for (const auto& op : back.ops()) ++after[op.kind];
  CHECK(done.matched_collectives == done.collectives);
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::compute}) {
    INFO(name_of(kind));
    CHECK(before[kind] > 0);
    CHECK((kind == OpKind::compute ? after[kind] >= before[kind] : after[kind] == before[kind]));
  }
  CHECK(back.info().steps == trace.info().steps);
  for (const Time offset : done.clock_offsets) CHECK(std::abs(offset) <= 10'000);
}

TEST_CASE("exports take the place of exports only", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  const std::string again = folder.path("again");
  for (const ExportFormat format : every_format) {
    for (int times = 0; times < 2; ++times) {
      INFO(exchange::name_of(format));
      CHECK(exchange::export_trace(trace, again, {.format = format, .ranks = {0}}).ok());
    }
  }
  const std::string page = "SQLite format 3" + std::string(4081, '\0');
  for (const std::string& bytes : {std::string("# Notes\n"), std::string("{\"traceEvents\": []}"),
                                   std::string("\x80\x04\x95", 3), page}) {
    const std::string kept = folder.file("kept0", bytes);
    for (const ExportFormat format : every_format) {
      const std::string name = format == ExportFormat::chrome ? folder.path("kept{rank}") : kept;
      const auto done = exchange::export_trace(trace, name, {.format = format, .ranks = {0}});
      INFO(exchange::name_of(format) << " over " << bytes.substr(0, 9));
      REQUIRE_FALSE(done.ok());
      CHECK(done.status().message() ==
            kept + ": exists and was not exported from a trace: choose another name");
      CHECK(bytes_of_file(kept) == bytes);
    }
  }
}

TEST_CASE("an export that fails leaves what was there", "[export]") {
  const auto trace = example();
  const test::Imports folder;
  const std::string path = folder.file("kept", "before");
  CHECK_FALSE(exchange::export_trace(trace, path, {.ranks = {99}}).ok());
  CHECK_FALSE(exchange::export_trace(trace, folder.path("no/such/folder"), {}).ok());
  CHECK(bytes_of_file(path) == "before");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace tessera
