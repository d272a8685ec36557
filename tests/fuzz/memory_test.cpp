// SPDX-License-Identifier: Apache-2.0
// What reading takes follows from what is there: not from what a file claims, nor from how long a
// recording is.
//
// The tests are to run first and in this order: without a sanitizer a process counts only what it
// has never had before.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tessera/analysis/compare.h"
#include "tessera/exchange/import.h"
#include "tessera/exchange/merge.h"
#include "tessera/storage/trace_writer.h"
#include "tests/exchange/made_profile.h"
#include "tests/fuzz/heap_use.h"
#include "tests/require_ok.h"
#include "tests/temporary_folder.h"

namespace tessera::test {
namespace {

TEST_CASE("a small file that claims very many ranks is imported in little memory", "[fuzz]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/rank0.json";
  MadeProfile plan;
  plan.steps = plan.layers = 1;
  std::string profile = made_profile(plan);
  const std::string world = R"("world_size": 4)";
  const std::size_t at = profile.find(world);
  REQUIRE(at != std::string::npos);
  profile.replace(at, world.size(), R"("world_size": 131072)");
  std::ofstream(path) << profile;
  restart_heap_use();
  const auto done = require_value(exchange::import_traces({path}, folder.path() + "/out"));
  CHECK(done.world == 131072);
  CHECK(most_heap_used() <= 64 << 20);
}

constexpr std::int32_t ops_per_step = 400, ranks_of_file = 4;

/// A step of gathers, of which each holds memory as long as it lasts.
void record_step(std::int32_t step, const std::vector<Rank>& ranks, TraceSink& sink) {
  const std::size_t n = ranks.size();
  const auto times = [n](Time time) { return std::vector<Time>(n, time); };
  const std::int32_t first = step * ops_per_step;
  for (std::int32_t id = first; id < first + ops_per_step; ++id) {
    const Time begin = Time{id} * 1000;
    sink.op({.id = id,
             .kind = OpKind::all_gather,
             .communicator = 0,
             .step = step,
             .unit = "u",
             .label = "gather u"});
    sink.spans({id, ranks, times(begin), times(begin), times(begin + 900)});
  }
  for (const Rank rank : ranks) {
    std::vector<MemorySample> samples;
    for (std::int32_t id = first; id < first + ops_per_step; ++id) {
      const Time begin = Time{id} * 1000;
      samples.push_back({rank, begin, 0, MemoryClass::temporary, Bytes{8}, Bytes{8}, Bytes{9}});
      samples.push_back({rank, begin + 900, 0, MemoryClass::temporary, Bytes{-8}, {}, Bytes{9}});
    }
    sink.memory(samples);
  }
  const std::vector<Time> none(2 * n), begins(2 * n, Time{first} * 1000),
      ends(2 * n, Time{first + ops_per_step} * 1000);
  const std::vector<Bytes> peaks(2 * n, Bytes{9});
  sink.rank_steps({step, begins, ends, none, none, none, none, none, peaks, peaks});
}

std::string record_part(const std::string& path, Rank first, std::int32_t steps,
                        std::int32_t ranks = ranks_of_file) {
  const auto writer = require_value(storage::TraceWriter::create(path));
  TraceRun run{.backend = "simulator", .options = "{}", .ranks = 2 * ranks};
  for (Rank rank = first; rank < first + ranks; ++rank) run.recorded_ranks.push_back(rank);
  writer->begin(run);
  writer->stream({0, "gathers", StreamRole::communication});
  writer->communicator({0, "world", run.ranks, 1});
  writer->buffer({.id = 0, .name = "gathered", .memory_class = MemoryClass::temporary});
  for (std::int32_t step = 0; step < steps; ++step) record_step(step, run.recorded_ranks, *writer);
  require_ok(writer->finish());
  return path;
}

/// Of merging two recordings of so many steps.
std::int64_t memory_to_merge(std::int32_t steps) {
  const TemporaryFolder folder;
  const std::vector<std::string> parts = {record_part(folder.path() + "/a", 0, steps),
                                          record_part(folder.path() + "/b", ranks_of_file, steps)};
  restart_heap_use();
  const auto done = require_value(exchange::merge_traces(parts, folder.path() + "/out", "test"));
  CHECK(done.spans == std::int64_t{steps} * ops_per_step * 2 * ranks_of_file);
  return most_heap_used();
}

// The shorter ones have more than a chunk of each rank, of which one is in memory.
TEST_CASE("longer recordings are merged in about the same memory", "[fuzz]") {
  const std::int64_t shorter = memory_to_merge(40), longer = memory_to_merge(100);
  CHECK(longer <= shorter + (16 << 20));
}

// So many operations that they are not all in memory; of each a comparison keeps some numbers.
TEST_CASE("two long recordings are compared in little memory", "[fuzz]") {
  constexpr std::int32_t steps = 400;
  constexpr std::int64_t of_operation = 250, anyway = 24 << 20;  // bytes, of both recordings
  using analysis::Trace;
  const TemporaryFolder folder;
  const std::string path = record_part(folder.path() + "/a", 0, steps, 1);
  restart_heap_use();
  const Trace a = require_value(Trace::open(path, Trace::Check::later));
  const Trace b = require_value(Trace::open(path, Trace::Check::later));
  const auto same = require_value(analysis::compare(a, b));
  CHECK(same.matched == std::int64_t{steps} * ops_per_step);
  CHECK(same.causes.empty());
  CHECK_FALSE(a.holds_ops());
  CHECK(most_heap_used() <= anyway + of_operation * steps * ops_per_step);
}

}  // namespace
}  // namespace tessera::test
