// SPDX-License-Identifier: Apache-2.0
#include "tests/inspector/made_trace.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <vector>

#include "tessera/storage/trace_writer.h"

namespace tessera::inspector {
namespace {

TraceRun run_of(const MadeTrace& made) {
  TraceRun run;
  run.name = "made";
  run.scheme = "fully_shard";
  run.cluster = "test";
  run.backend = "simulator";
  run.options = "{}";
  run.ranks = made.ranks;
  run.ranks_per_node = 8;
  run.memory_per_rank = Bytes{64 << 20};
  for (Rank rank = 0; rank < std::min(made.ranks, made.recorded); ++rank) {
    run.recorded_ranks.push_back(rank);
  }
  return run;
}

// ns of each step in which the slow rank, or without one all, have computed, and all have gathered.
Time last_computed(const MadeTrace& made) {
  return made.slow_rank >= 0 ? made_step * 9 / 10 : made_step / 4;
}
Time gathered(const MadeTrace& made) {
  return made.slow_rank >= 0 ? made_step * 95 / 100 : made_step * 3 / 4;
}

// Each step computes for a quarter, or much longer on a slow rank, then all gather together.
void write_spans(const MadeTrace& made, const std::vector<Rank>& ranks, int step, TraceSink& sink) {
  const Time from = step * made_step;
  std::vector<Time> begin, end;
  for (const Rank rank : ranks) {
    begin.push_back(from);
    end.push_back(from + (rank == made.slow_rank ? last_computed(made) : made_step / 4));
  }
  const std::int32_t id = 2 * step;
  sink.op({.id = id, .stream = 0, .step = step, .phase = Phase::forward, .module = "layers.0.mlp"});
  sink.spans({id, ranks, begin, begin, end});
  sink.op({.id = id + 1,
           .kind = OpKind::all_gather,
           .stream = 1,
           .communicator = 0,
           .step = step,
           .phase = Phase::forward,
           .unit = "layers.1",
           .bytes = Bytes{1 << 20}});
  const std::vector<Time> ready(ranks.size(), from + last_computed(made));
  const std::vector<Time> done(ranks.size(), from + gathered(made));
  sink.spans({id + 1, ranks, end, ready, done});
}

void write_memory(const MadeTrace& made, const std::vector<Rank>& ranks, int step,
                  TraceSink& sink) {
  for (const Rank rank : ranks) {
    Bytes allocated{};
    std::vector<MemorySample> samples;
    const auto change = [&](int k, Bytes delta, Time time) {
      allocated += delta;
      samples.push_back({rank, step * made_step + time, k, static_cast<MemoryClass>(k), delta,
                         allocated, Bytes{40 << 20}});
    };
    for (int k = 0; k < made.memory_classes; ++k) change(k, Bytes{2 << 20}, 1000 * (k + 1));
    for (int k = 0; k < made.memory_classes; ++k) {
      change(k, Bytes{-(2 << 20)}, made_step / 2 + 1000 * (k + 1));
    }
    sink.memory(samples);
  }
}

void write_summary(const MadeTrace& made, int step, TraceSink& sink) {
  const auto count = static_cast<std::size_t>(made.ranks);
  std::vector<Time> begin(count, step * made_step), end(count, (step + 1) * made_step);
  std::vector<Time> compute(count, made_step / 4), none(count, 0);
  std::vector<Time> transfer(count, gathered(made) - last_computed(made));
  std::vector<Time> wait(count, last_computed(made) - made_step / 4);
  std::vector<Bytes> peak(count, Bytes{(2 << 20) * made.memory_classes});
  std::vector<Bytes> reserved(count, Bytes{40 << 20});
  if (made.slow_rank >= 0) {
    compute[static_cast<std::size_t>(made.slow_rank)] = last_computed(made);
    wait[static_cast<std::size_t>(made.slow_rank)] = 0;
  }
  if (made.peaks) {
    PeakMemory all{step, 0, made.ranks, peak[0], reserved[0], {}};
    for (int k = 0; k < made.memory_classes; ++k) {
      all.by_class[static_cast<std::size_t>(k)] = Bytes{2 << 20};
    }
    all.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] = reserved[0] - peak[0];
    sink.peak_memory(all);
  }
  sink.rank_steps({step, begin, end, compute, transfer, none, none, wait, peak, reserved});
}

}  // namespace

void write_trace(const MadeTrace& made, const std::string& path) {
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  const TraceRun run = run_of(made);
  sink.begin(run);
  sink.stream({0, "compute", StreamRole::compute});
  sink.stream({1, "gather", StreamRole::communication});
  sink.communicator({0, "world", made.ranks, 1});
  for (int k = 0; k < made.memory_classes; ++k) {
    sink.buffer({.id = k,
                 .name = "buffer",
                 .memory_class = static_cast<MemoryClass>(k),
                 .bytes = Bytes{2 << 20}});
  }
  for (int step = 0; step < made.steps; ++step) {
    write_spans(made, run.recorded_ranks, step, sink);
    write_memory(made, run.recorded_ranks, step, sink);
    write_summary(made, step, sink);
  }
  if (made.out_of_memory) {
    sink.diagnostic({.severity = TraceDiagnostic::Severity::error,
                     .code = "out_of_memory",
                     .rank = 1,
                     .time = *made.out_of_memory,
                     .message = "rank 1 is out of memory in step 1"});
    const MemoryBlock blocks[] = {
        {.address = Bytes{0}, .bytes = Bytes{3 << 20}, .buffer = 0},
        {.address = Bytes{3 << 20}, .bytes = Bytes{1 << 20}, .stream = 1},
        {.address = Bytes{4 << 20}, .bytes = Bytes{1 << 19}},
        {.address = Bytes{9 << 19}, .bytes = Bytes{1 << 19}, .segment = Bytes{1}, .buffer = 1}};
    sink.memory_shortage({.rank = 1,
                          .time = *made.out_of_memory,
                          .buffer = 1,
                          .request = Bytes{1 << 20},
                          .capacity = Bytes{5 << 20},
                          .free = Bytes{3 << 19},
                          .largest_free = Bytes{1 << 19},
                          .blocks = blocks});
  }
  INFO((*writer)->finish().message());
  REQUIRE(!(*writer)->content_hash().empty());
}

void change(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  INFO(sql << ": " << sqlite3_errmsg(database));
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

void damage(const std::string& path) {
  for (const std::string table : {"span_chunk", "memory_chunk"}) {
    change(path, "update " + table + " set data = zeroblob(length(data))");
  }
}

}  // namespace tessera::inspector
