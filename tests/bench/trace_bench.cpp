// SPDX-License-Identifier: Apache-2.0
// How many spans a second the recorder writes on one core, and plain SQLite rows beside it.
//
//   bench_trace [FOLDER [STEPS [CASE]]]   # a case: 0, 1 jitter, 2 samples, 3 both; else all
//
// 64 ranks gather, compute and reduce by layers on two streams, as sharded training does; with and
// without jitter, with and without memory samples. Calls are made up before the clock starts.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/storage/trace_writer.h"

namespace tessera {
namespace {

constexpr std::size_t bench_ranks = 64;
constexpr std::int32_t layers = 32;
constexpr std::int32_t compute_stream = 0, communication_stream = 1;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

using Times = std::array<Time, bench_ranks>;
struct MadeOp {
  std::int32_t stream, step;
  std::vector<std::int32_t> after;
  Times begin, ready, end;
};

/// A run as the simulator tells of it.
struct MadeRun {
  std::vector<MadeOp> ops;
  std::vector<std::vector<MemorySample>> samples;  // [step * ranks + rank]
  std::vector<Times> step_ends;
};

class Maker {
 public:
  Maker(bool jitter, bool samples) : jitter_(jitter), samples_(samples) {}

  MadeRun make(std::int32_t steps) {
    for (step_ = 0; step_ < steps; ++step_) {
      for (auto& changes : changes_) changes.clear();
      for (std::int32_t layer = 0; layer < layers; ++layer) pass(layer, 4, false);
      for (std::int32_t layer = layers - 1; layer >= 0; --layer) pass(layer, 8, true);
      end_step();
    }
    return std::move(run_);
  }

 private:
  struct Change {
    Time time;
    std::int32_t buffer;
    Bytes delta;
  };

  std::int32_t add(std::int32_t stream, std::vector<std::int32_t> after, Time cost) {
    MadeOp op{stream, step_, std::move(after), {}, {}, {}};
    for (std::size_t r = 0; r < bench_ranks; ++r) {
      op.begin[r] = ends_[static_cast<std::size_t>(stream)][r];
      for (const std::int32_t id : op.after) {
        op.begin[r] = std::max(op.begin[r], run_.ops[static_cast<std::size_t>(id)].end[r]);
      }
    }
    const bool meets = stream == communication_stream;
    const Time last = *std::max_element(op.begin.begin(), op.begin.end());
    for (std::size_t r = 0; r < bench_ranks; ++r) {
      state_ = state_ * 6364136223846793005 + 1442695040888963407;
      const Time more = jitter_ && !meets ? static_cast<Time>((state_ >> 33) * 2000 >> 31) : 0;
      op.ready[r] = meets ? last : op.begin[r];
      op.end[r] = op.ready[r] + cost + more;
    }
    ends_[static_cast<std::size_t>(stream)] = op.end;
    run_.ops.push_back(std::move(op));
    return static_cast<std::int32_t>(run_.ops.size()) - 1;
  }

  void change(std::int32_t op, bool at_end, std::int32_t buffer, std::int64_t delta) {
    if (!samples_) return;
    const MadeOp& of = run_.ops[static_cast<std::size_t>(op)];
    for (std::size_t r = 0; r < bench_ranks; ++r) {
      changes_[r].push_back({at_end ? of.end[r] : of.begin[r], buffer, Bytes{delta}});
    }
  }

  void pass(std::int32_t layer, int kernels, bool backward) {
    const std::int32_t gather = add(communication_stream, {}, 90'000);
    change(gather, false, 0, 400 << 20);
    std::int32_t last = gather;
    for (int k = 0; k < kernels; ++k) {
      last = add(compute_stream, {last}, 20'000 + 7'000 * k);
      const bool kept = k % 2 == (backward ? 1 : 0);
      change(last, backward, 1 + (backward ? k / 2 : k), (backward ? -1 : 1) * (k + 1) * (1 << 20));
      if (!kept)
        change(last, true, 9 + k, (k + 1) << 19), change(last, true, 9 + k, -((k + 1) << 19));
    }
    change(last, true, 0, -(400 << 20));
    if (backward) static_cast<void>(add(communication_stream, {last}, 110'000 + layer));
  }

  void end_step() {
    run_.step_ends.push_back(ends_[compute_stream]);
    if (!samples_) return;
    for (std::size_t r = 0; r < bench_ranks; ++r) {
      auto& changes = changes_[r];
      std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
        return std::tuple(a.time, a.delta > Bytes{0}) < std::tuple(b.time, b.delta > Bytes{0});
      });
      std::vector<MemorySample>& samples = run_.samples.emplace_back();
      for (const Change& c : changes) {
        held_[r] += c.delta;
        const MemoryClass kind =
            c.buffer == 0 ? MemoryClass::unsharded_parameters : MemoryClass::activations;
        samples.push_back({static_cast<Rank>(r), c.time, c.buffer, kind, c.delta, held_[r],
                           Bytes{std::int64_t{60} << 30}});
      }
    }
  }

  const bool jitter_, samples_;
  std::uint64_t state_ = 1;
  std::int32_t step_ = 0;
  std::array<Times, 2> ends_{};
  std::array<std::vector<Change>, bench_ranks> changes_;
  std::array<Bytes, bench_ranks> held_{};
  MadeRun run_;
};

void print(const std::string& what, double seconds, const MadeRun& run, const std::string& path) {
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const double spans = static_cast<double>(run.ops.size()) * bench_ranks;
  std::size_t samples = 0;
  for (const auto& of_rank : run.samples) samples += of_rank.size();
  fmt::print("{}: {:.2f} million spans per second of CPU time, {:.2f} bytes per span", what,
             spans / seconds * 1e-6, bytes / spans);
  if (samples > 0) fmt::print(", {:.2f} samples per span", static_cast<double>(samples) / spans);
  fmt::print("\n");
}

void tell(const MadeRun& run, TraceSink& sink, const std::vector<Rank>& ranks) {
  const std::vector<Time> zeros(bench_ranks);
  const std::vector<Bytes> no_bytes(bench_ranks);
  for (std::int32_t id = 0, step = 0; id < std::ssize(run.ops); ++id) {
    const MadeOp& op = run.ops[static_cast<std::size_t>(id)];
    const bool meets = op.stream == communication_stream;
    sink.op({.id = id,
             .kind = meets ? OpKind::all_gather : OpKind::compute,
             .stream = op.stream,
             .communicator = meets ? 0 : -1,
             .step = op.step,
             .unit = "layers.1",
             .module = {},
             .label = meets ? "all_gather layers.1" : "forward layers.1.mlp",
             .algorithm = {},
             .after = op.after});
    sink.spans({id, ranks, op.begin, op.ready, op.end});
    const bool last =
        id + 1 == std::ssize(run.ops) || run.ops[static_cast<std::size_t>(id) + 1].step != step;
    if (!last) continue;
    const auto at = static_cast<std::size_t>(step);
    const std::vector<Time> begins =
        at == 0 ? zeros
                : std::vector<Time>(run.step_ends[at - 1].begin(), run.step_ends[at - 1].end());
    sink.rank_steps(
        {step, begins, run.step_ends[at], zeros, zeros, zeros, zeros, zeros, no_bytes, no_bytes});
    for (std::size_t r = 0; r < bench_ranks && !run.samples.empty(); ++r) {
      sink.memory(run.samples[at * bench_ranks + r]);
    }
    ++step;
  }
}

bool record(const std::string& what, const MadeRun& run, const std::string& path) {
  const double start = cpu_seconds();
  auto writer = storage::TraceWriter::create(path);
  if (!writer.ok()) return false;
  TraceSink& sink = **writer;
  TraceRun of{.options = "{}", .ranks = bench_ranks, .ranks_per_node = 8};
  of.recorded_ranks.resize(bench_ranks);
  std::iota(of.recorded_ranks.begin(), of.recorded_ranks.end(), 0);
  of.records_memory = !run.samples.empty();
  sink.begin(of);
  sink.stream({compute_stream, "default", StreamRole::compute});
  sink.stream({communication_stream, "all_gather", StreamRole::communication});
  sink.communicator({0, "world", bench_ranks, 1});
  for (std::int32_t id = 0; id < 24; ++id) {
    sink.buffer({.id = id, .name = "buffer", .memory_class = MemoryClass::activations});
  }
  tell(run, sink, of.recorded_ranks);
  if (!sink.finish().ok()) return false;
  print(what, cpu_seconds() - start, run, path);
  fmt::print("  content {}\n", (*writer)->content_hash());
  return true;
}

bool write_rows(const MadeRun& run, const std::string& path) {
  std::filesystem::remove(path);
  const double start = cpu_seconds();
  sqlite3* connection = nullptr;
  sqlite3_stmt* insert = nullptr;
  bool good = sqlite3_open(path.c_str(), &connection) == SQLITE_OK;
  const auto execute = [&](const char* sql) {
    good = good && sqlite3_exec(connection, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
  execute("CREATE TABLE span (rank, stream, op, begin, ready, end); BEGIN");
  sqlite3_prepare_v2(connection, "INSERT INTO span VALUES (?, ?, ?, ?, ?, ?)", -1, &insert,
                     nullptr);
  for (std::int32_t id = 0; id < std::ssize(run.ops); ++id) {
    const MadeOp& op = run.ops[static_cast<std::size_t>(id)];
    for (std::size_t r = 0; r < bench_ranks; ++r) {
      sqlite3_bind_int(insert, 1, static_cast<Rank>(r));
      sqlite3_bind_int(insert, 2, op.stream);
      sqlite3_bind_int(insert, 3, id);
      sqlite3_bind_int64(insert, 4, op.begin[r]);
      sqlite3_bind_int64(insert, 5, op.ready[r]);
      sqlite3_bind_int64(insert, 6, op.end[r]);
      good = good && sqlite3_step(insert) == SQLITE_DONE;
      sqlite3_reset(insert);
    }
  }
  sqlite3_finalize(insert);
  execute("COMMIT");
  sqlite3_close(connection);
  if (good) print("plain SQLite rows", cpu_seconds() - start, run, path);
  return good;
}

bool measure(const std::string& folder, std::int32_t steps, int only) {
  const std::string trace = folder + "/bench.tessera", rows = folder + "/bench.sqlite";
  bool done = true;
  for (int k = 0; k < 4; ++k) {
    const bool jitter = k % 2 == 1, samples = k >= 2;
    if (only >= 0 && only != k) continue;
    const MadeRun run = Maker(jitter, samples).make(steps);
    const std::string what =
        fmt::format("recorder{}{}", jitter ? ", jitter" : "", samples ? ", samples" : "");
    done = done && record(what, run, trace);
    if (k == 1 && only < 0) done = done && write_rows(run, rows);
  }
  std::filesystem::remove(trace);
  std::filesystem::remove(rows);
  return done;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  const std::string folder = count > 1 ? arguments[1] : ".";
  const int steps = count > 2 ? std::atoi(arguments[2]) : 100;
  return tessera::measure(folder, steps, count > 3 ? std::atoi(arguments[3]) : -1) ? 0 : 1;
}
