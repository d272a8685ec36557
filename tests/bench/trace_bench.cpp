// SPDX-License-Identifier: Apache-2.0
// How many spans a second the recorder writes on one core, and plain SQLite rows beside it.
//
//   bench_trace [FOLDER]
#include <fmt/format.h>
#include <sqlite3.h>

#include <ctime>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/storage/trace_writer.h"

namespace tessera {
namespace {

constexpr Rank bench_ranks = 64;
constexpr std::int32_t bench_ops = 100'000;
constexpr double all_spans = double{bench_ranks} * bench_ops;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Calls each(op, ranks, begin, end) for operations whose times differ between ranks.
template <class Each>
void for_each_op(Each each) {
  std::vector<Rank> ranks(bench_ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<Time> begin(bench_ranks), end(bench_ranks);
  std::uint64_t state = 1;
  for (std::int32_t op = 0; op < bench_ops; ++op) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      state = state * 6364136223846793005 + 1442695040888963407;
      begin[r] = end[r] + 1000;
      end[r] = begin[r] + 100'000 + static_cast<Time>(state >> 50);
    }
    each(op, ranks, begin, end);
  }
}

void print(const char* what, double seconds, const std::string& path) {
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  fmt::print("{}: {:.2f} million spans per second of CPU time, {:.1f} bytes per span\n", what,
             all_spans / seconds * 1e-6, bytes / all_spans);
}

bool record(const std::string& path) {
  const double start = cpu_seconds();
  auto writer = storage::TraceWriter::create(path);
  if (!writer.ok()) return false;
  TraceSink& sink = **writer;
  TraceRun run{.options = "{}", .ranks = bench_ranks, .ranks_per_node = 8};
  run.recorded_ranks.resize(bench_ranks);
  std::iota(run.recorded_ranks.begin(), run.recorded_ranks.end(), 0);
  sink.begin(run);
  sink.stream({0, "default", StreamRole::compute});
  for_each_op([&](std::int32_t op, const auto& ranks, const auto& begin, const auto& end) {
    sink.op({.id = op, .label = "forward"});
    sink.spans({op, ranks, begin, begin, end});
  });
  if (!sink.finish().ok()) return false;
  print("recorder", cpu_seconds() - start, path);
  return true;
}

bool write_rows(const std::string& path) {
  std::filesystem::remove(path);
  const double start = cpu_seconds();
  sqlite3* connection = nullptr;
  sqlite3_stmt* insert = nullptr;
  bool good = sqlite3_open(path.c_str(), &connection) == SQLITE_OK;
  const auto run = [&](const char* sql) {
    good = good && sqlite3_exec(connection, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  run("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
  run("CREATE TABLE span (rank, stream, op, begin, ready, end); BEGIN");
  sqlite3_prepare_v2(connection, "INSERT INTO span VALUES (?, 0, ?, ?, ?, ?)", -1, &insert,
                     nullptr);
  for_each_op([&](std::int32_t op, const auto& ranks, const auto& begin, const auto& end) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      sqlite3_bind_int(insert, 1, ranks[r]);
      sqlite3_bind_int(insert, 2, op);
      sqlite3_bind_int64(insert, 3, begin[r]);
      sqlite3_bind_int64(insert, 4, begin[r]);
      sqlite3_bind_int64(insert, 5, end[r]);
      good = good && sqlite3_step(insert) == SQLITE_DONE;
      sqlite3_reset(insert);
    }
  });
  sqlite3_finalize(insert);
  run("COMMIT");
  sqlite3_close(connection);
  if (good) print("plain SQLite rows", cpu_seconds() - start, path);
  return good;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  const std::string folder = count > 1 ? arguments[1] : ".";
  const std::string trace = folder + "/bench.tessera", rows = folder + "/bench.sqlite";
  const bool done = tessera::record(trace) && tessera::write_rows(rows);
  std::filesystem::remove(trace);
  std::filesystem::remove(rows);
  return done ? 0 : 1;
}
