// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <memory>

#include "storage/content_hash.h"
#include "tessera/analysis/run.h"
#include "tessera/exchange/export.h"
#include "tessera/exchange/merge.h"
#include "tessera/storage/same_content.h"
#include "tessera/storage/trace_reader.h"
#include "tests/fuzz/readers.h"
#include "tests/require_ok.h"
#include "tests/storage/recording.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using storage::TraceReader;

/// Every table and chunk once: whatever is in them, it comes to an end.
void read_everything(const TraceReader& reader) {
  static_cast<void>(reader.ops().ok());
  static_cast<void>(reader.collectives().ok());
  static_cast<void>(reader.buffers().ok());
  static_cast<void>(reader.rank_steps().ok());
  static_cast<void>(reader.step_summary().ok());
  static_cast<void>(reader.peak_memory().ok());
  static_cast<void>(reader.diagnostics().ok());
  static_cast<void>(reader.memory_shortages().ok());
  static_cast<void>(reader.kernels().ok());
  static_cast<void>(reader.waits(3, 5).ok());
  static_cast<void>(reader.waiting_for(3, 100).ok());
  int left = 16;
  for (const Rank rank : reader.info().run.recorded_ranks) {
    if (--left < 0) break;
    static_cast<void>(reader.lanes(rank, 0, std::numeric_limits<Time>::max()).ok());
    static_cast<void>(reader.memory(rank).ok());
  }
}

/// Makes the content hash right again, so that rows and chunks are all that can be checked.
bool sign(const std::string& path) {
  std::string sql;
  {
    const auto database = storage::Database::open_read_only(path);
    if (!database.ok()) return false;
    const auto hash = storage::content_hash_of(*database);
    if (!hash.ok()) return false;
    sql = "UPDATE meta SET value = '" + *hash + "' WHERE key = 'content_hash'";
  }
  sqlite3* connection = nullptr;
  sqlite3_open(path.c_str(), &connection);
  sqlite3_exec(connection, "PRAGMA journal_mode = OFF", nullptr, nullptr, nullptr);
  const bool done = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(connection);
  return done;
}

/// What a user does with it.
Status use_trace(const std::string& path, const std::string& out) {
  TESSERA_ASSIGN(const analysis::Trace trace, analysis::Trace::open(path));
  TESSERA_TRY(analysis::report_of(trace).status());
  for (const auto format :
       {exchange::ExportFormat::perfetto, exchange::ExportFormat::memory_snapshot}) {
    exchange::ExportOptions options;
    options.format = format;
    const auto done = exchange::export_trace(trace, out, options);
    if (done.ok()) fs::remove(out);
    CHECK_FALSE(fs::exists(out));
  }
  return {};
}

/// Its times are odd on purpose; those of files that are merged are possible ones.
void calm_times(Recording& recording) {
  const auto calm = [](std::vector<Time>& times) {
    for (Time& time : times) time /= 1 << 16;
  };
  for (storage::Lane& lane : recording.lanes) {
    for (auto* column : {&lane.begin, &lane.ready, &lane.end}) calm(*column);
  }
  for (storage::MemorySeries& series : recording.memory) calm(series.time);
  storage::RankSteps& steps = recording.rank_steps;
  for (auto* column : {&steps.begin, &steps.end, &steps.compute, &steps.communication,
                       &steps.exposed, &steps.blocking, &steps.wait}) {
    calm(*column);
  }
}

}  // namespace

FuzzedReader trace_reader(const std::string& scratch, const std::vector<std::string>& more) {
  std::vector<Files> seeds;
  const auto originals = std::make_shared<std::vector<TraceReader>>();
  const auto add = [&](const std::string& path) {
    seeds.push_back(files_at(path));
    originals->push_back(require_value(TraceReader::open(path)));
  };
  Recording small = random_recording(71);
  Recording other = random_recording(72, {.ranks = 3, .steps = 2, .ops = 200});
  int number = 0;
  for (const Recording& recording : {small, other}) {
    const std::string path = scratch + "/seed" + std::to_string(number++) + ".tessera";
    write(recording, path);
    add(path);
  }
  for (const std::string& path : more) add(path);
  const auto read = [seeds, originals](const std::string& folder, std::size_t seed,
                                       bool whole) -> Status {
    const std::string path = folder + "/" + seeds[seed].begin()->first;
    TESSERA_ASSIGN(const TraceReader reader, TraceReader::open(path));
    read_everything(reader);
    const Status verified = reader.verify();
    if (!verified.ok()) {
      if (whole && sign(path)) static_cast<void>(use_trace(path, folder + "/out").ok());
      return verified;
    }
    if (whole) static_cast<void>(use_trace(path, folder + "/out").ok());
    if (reader.info().unfinished) return {};  // which is said wherever it is opened
    const auto same = storage::same_content(reader, (*originals)[seed]);
    CHECK((same.ok() && *same));
    return {};
  };
  return {"trace", seeds, read};
}

FuzzedReader merge_reader(const std::string& scratch) {
  // Two files that each have a part of the ranks.
  Files seed;
  for (int half = 0; half < 2; ++half) {
    Recording recording = random_recording(73, {.ranks = 4, .steps = 2, .ops = 60});
    calm_times(recording);
    const auto of_half = [&](Rank rank) { return rank % 2 == half; };
    std::erase_if(recording.info.run.recorded_ranks, [&](Rank rank) { return !of_half(rank); });
    std::erase_if(recording.lanes, [&](const auto& lane) { return !of_half(lane.rank); });
    std::erase_if(recording.memory, [&](const auto& series) { return !of_half(series.rank); });
    const std::string path = scratch + "/part" + std::to_string(half) + ".tessera";
    write(recording, path);
    seed.merge(files_at(path));
  }
  const auto read = [](const std::string& folder, std::size_t, bool) -> Status {
    const std::string out = folder + "/out";
    const auto done =
        exchange::merge_traces({folder + "/part0.tessera", folder + "/part1.tessera"}, out);
    CHECK(fs::exists(out) == done.ok());
    if (!done.ok()) return done.status();
    const Status whole = require_value(TraceReader::open(out)).verify();
    INFO(whole.message());
    CHECK(whole.ok());
    fs::remove(out);
    return {};
  };
  return {"merge", {seed}, read};
}

}  // namespace tessera::test
