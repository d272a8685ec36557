// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/memory_snapshot.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "exchange/import/file_rank.h"
#include "tests/exchange/reading.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t mega = 1 << 20;
constexpr std::int64_t before = 3 * mega + 5 * mega + 100;  // held when the recording began

TEST_CASE("a memory snapshot becomes samples whose sums are the allocator's", "[exchange]") {
  const ImportedRun run = read_one(read_memory_snapshot, "memory_snapshot.pickle");
  REQUIRE(run.ranks().size() == 1);
  const ImportedRank& rank = run.ranks()[0];
  std::int64_t sum = 0, peak = 0;
  Time time = 0;
  for (const ImportedMemory& sample : rank.memory) {
    CHECK(sample.time >= time);
    time = sample.time;
    sum += sample.delta.value;
    CHECK(sample.allocated.value == sum);
    CHECK(sample.reserved >= sample.allocated);
    peak = std::max(peak, sum);
  }
  CHECK(rank.memory[0].delta.value + rank.memory[1].delta.value == before);
  CHECK(peak == before + 30 * mega + 12 * mega);
  CHECK(sum == before - 3 * mega + 30 * mega);
  CHECK(rank.memory.back().reserved == Bytes{60 * mega});
  CHECK(rank.memory.size() == 2 + 2 + 3 * 4 + 1);
}

TEST_CASE("allocations are named by the code that asked for them", "[exchange]") {
  const ImportedRun run = read_one(read_memory_snapshot, "memory_snapshot.pickle");
  const std::vector<ImportedMemory>& memory = run.ranks()[0].memory;
  CHECK(run.text(memory[2].name) == "build (train.py:12)");
  CHECK(memory[2].memory_class == MemoryClass::unknown);
  CHECK(run.text(memory[3].name) == "<module> (train.py:46)");
  CHECK(memory[3].memory_class == MemoryClass::optimizer_state);
  CHECK(memory[4].memory_class == MemoryClass::all_gather_buffers);
  CHECK(run.text(memory[5].name) == "forward (model.py:31)");
}

TEST_CASE("annotations of a snapshot are spans beside its memory, and mark steps", "[exchange]") {
  const ImportedRun run = read_one(read_memory_snapshot, "annotated_snapshot.pickle");
  REQUIRE(run.ranks().size() == 1);
  const ImportedRank& rank = run.ranks()[0];
  REQUIRE(rank.spans.size() == 2);
  CHECK(run.text(rank.spans[0].name) == "forward");
  CHECK(rank.spans[0].end - rank.spans[0].begin == 50'000);
  CHECK(rank.steps.size() == 1);
  CHECK(run.warnings().back() ==
        "left out: 1 allocations without a size, 1 begins and ends of annotations that have no "
        "other half, 2 events of the allocator that change nothing of what is held");
}

TEST_CASE("events that contradict each other are named, and sums stay those of the order of events",
          "[exchange]") {
  const ImportedRun run = read_one(read_memory_snapshot, "annotated_snapshot.pickle");
  std::vector<std::int64_t> allocated;
  Time time = 0;
  for (const ImportedMemory& sample : run.ranks()[0].memory) {
    CHECK(sample.time >= time);
    time = sample.time;
    allocated.push_back(sample.allocated.value / mega);
  }
  CHECK(allocated == std::vector<std::int64_t>{2, 6, 2, 0, 4});
  const std::vector<std::string> warnings = run.warnings();
  const auto has = [&](const std::string& text) {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const std::string& w) { return w.find(text) != w.npos; });
  };
  CHECK(has("2 events of the allocator have earlier times than the ones before them"));
  CHECK(has("1 blocks were allocated where one was that nobody had freed"));
}

TEST_CASE("running out of memory is told with its numbers", "[exchange]") {
  const ImportedRun run = read_one(read_memory_snapshot, "memory_snapshot.pickle");
  REQUIRE(run.diagnostics.size() == 1);
  CHECK(run.diagnostics[0].code == "out_of_memory");
  CHECK(run.diagnostics[0].message ==
        "The allocator ran out of memory: 67108864 bytes were asked for, the device had 2097152 "
        "free, and of 62914560 that were reserved 36700260 were in use.");
}

TEST_CASE("a list of segments alone, as older versions gave, is a snapshot", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/segments.pickle";
  std::ofstream(path) << "(l(dS'device'\nI0\nsS'address'\nI4096\nsS'total_size'\nI2097152\ns"
                         "S'stream'\nI0\nsS'segment_type'\nS'small'\nsS'blocks'\n"
                         "(l(dS'size'\nI512\nsS'state'\nS'active_allocated'\nsasa.";
  ImportedRun run;
  read_into(run, read_memory_snapshot, path);
  REQUIRE(run.ranks().size() == 1);
  REQUIRE(run.ranks()[0].memory.size() == 1);
  CHECK(run.ranks()[0].memory[0].allocated == Bytes{512});
  CHECK(run.ranks()[0].memory[0].reserved == Bytes{2097152});
}

TEST_CASE("blocks of torch 2.0 are as large as their latest allocation, and named by it",
          "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/segments.pickle";
  const auto allocation = [](const std::string& size, const std::string& line) {
    return "(dS'addr'\nI4096\nsS'real_size'\nI" + size +
           "\nsS'frames'\n(l(dS'name'\nS'forward'\nsS'filename'\nS'model.py'\nsS'line'\nI" + line +
           "\nsasa";
  };
  const std::string history = "sS'history'\n(l" + allocation("500", "31") + allocation("90", "7");
  std::ofstream(path) << "(l(dS'device'\nI0\nsS'address'\nI4096\nsS'total_size'\nI2097152\ns"
                         "S'stream'\nI0\nsS'segment_type'\nS'small'\nsS'blocks'\n"
                         "(l(dS'size'\nI512\nsS'state'\nS'active_allocated'\n"
                      << history << "sa(dS'size'\nI512\nsS'state'\nS'inactive'\n"
                      << history << "sasa.";
  ImportedRun run;
  read_into(run, read_memory_snapshot, path);
  REQUIRE(run.ranks()[0].memory.size() == 1);
  CHECK(run.ranks()[0].memory[0].allocated == Bytes{500});
  CHECK(run.text(run.ranks()[0].memory[0].name) == "forward (model.py:31)");
  CHECK(run.warnings().back() == "left out: 3 allocations of blocks before the latest");
}

TEST_CASE("the rank of a file is that behind the word or the last number", "[exchange]") {
  CHECK(rank_of_file("nccl_trace_rank_3", true) == 3);
  CHECK(rank_of_file("rank12.pickle", false) == 12);
  CHECK(rank_of_file("host7_rank-2_v1.json", true) == 2);
  CHECK(rank_of_file("dump_7.json", true) == 7);
  CHECK(rank_of_file("5", true) == 5);
  CHECK(rank_of_file("chakra.3.et", true) == 3);
  CHECK(rank_of_file("1.0.2-chakra.0.0.4.json", true) == -1);
  CHECK(rank_of_file("dump_7.json", false) == -1);
  CHECK(rank_of_file("snapshot.pickle", true) == -1);
  CHECK(rank_of_file("rank99999999999", true) == -1);
}

}  // namespace
}  // namespace tessera::exchange
