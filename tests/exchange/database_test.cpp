// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "exchange/formats/nsys.h"
#include "exchange/formats/rocpd.h"
#include "exchange/import/source_lanes.h"
#include "tests/exchange/reading.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

/// "lane: name xN" of a rank, and what is in it.
std::map<std::string, int> spans_of(const ImportedRun& run) {
  std::map<std::string, int> spans;
  for (const ImportedSpan& span : run.ranks()[0].spans) {
    const auto& lane = run.ranks()[0].lanes[static_cast<std::size_t>(span.lane)];
    ++spans[run.text(lane.name) + ": " + run.text(span.name).substr(0, 20)];
  }
  return spans;
}

Time busy(const ImportedRun& run, OpKind kind) {
  Time sum = 0;
  for (const ImportedSpan& span : run.ranks()[0].spans) {
    if (span.kind == kind) sum += span.end - span.begin;
  }
  return sum;
}

TEST_CASE("exports of Nsight Systems have kernels, collectives, copies, ranges and memory",
          "[exchange]") {
  const ImportedRun run = read_one(read_nsys, "nsys.sqlite");
  REQUIRE(run.ranks().size() == 1);
  const ImportedRank& rank = run.ranks()[0];
  CHECK(spans_of(run) == std::map<std::string, int>{{"compute: adam", 2},
                                                    {"compute: gemm_backward", 2},
                                                    {"compute: gemm_forward", 2},
                                                    {"copy: Memcpy HtoD", 2},
                                                    {"host waits: cudaStreamSynchroniz", 2},
                                                    {"main thread, annotations: forward", 2},
                                                    {"main thread, annotations: step", 2},
                                                    {"nccl: ncclDevKernel_AllGat", 2},
                                                    {"nccl: ncclDevKernel_Reduce", 2}});
  CHECK(busy(run, OpKind::all_gather) == 2 * 45'000);
  CHECK(busy(run, OpKind::reduce_scatter) == 2 * 50'000);
  REQUIRE_FALSE(rank.spans.empty());
  CHECK(rank.spans[0].begin == 1'700'000'000'000'000'000 + 10'000'000);
  REQUIRE(rank.steps.size() == 2);
  CHECK(rank.steps[1].number == 1);
  CHECK(rank.host == "node7");
  CHECK(run.facts.memory_per_rank == Bytes{85'899'345'920});
  REQUIRE(rank.memory.size() == 3);
  CHECK(rank.memory[1].allocated == Bytes{(1 << 30) + (1 << 20)});
  CHECK(rank.memory[2].allocated == Bytes{1 << 30});
}

TEST_CASE("exports of Nsight Systems may lack any table", "[exchange]") {
  const std::string table =
      GENERATE(as<std::string>(), "StringIds", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_KERNEL",
               "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS", "TARGET_INFO_SESSION_START_TIME");
  CAPTURE(table);
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/rank3.sqlite";
  std::filesystem::copy_file(data_path("nsys.sqlite"), path);
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  CHECK(sqlite3_exec(connection, ("DROP TABLE " + table).c_str(), nullptr, nullptr, nullptr) ==
        SQLITE_OK);
  sqlite3_close(connection);
  ImportedRun run;
  read_into(run, read_nsys, path);
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].rank == 3);
  CHECK(run.ranks()[0].spans.size() >= 6);
}

TEST_CASE("databases of rpd_tracer have what the device did and what the program marked",
          "[exchange]") {
  const ImportedRun run = read_one(read_rpd, "rpd.rpd");
  REQUIRE(run.ranks().size() == 1);
  CHECK(spans_of(run) == std::map<std::string, int>{{"compute: adam", 2},
                                                    {"compute: gemm_backward", 2},
                                                    {"compute: gemm_forward", 2},
                                                    {"copy: CopyHostToDevice", 2},
                                                    {"host waits: hipDeviceSynchronize", 2},
                                                    {"main thread, annotations: step", 2},
                                                    {"nccl: ncclDevKernel_AllGat", 2},
                                                    {"nccl: ncclDevKernel_Reduce", 2}});
  CHECK(run.ranks()[0].steps.size() == 2);
  for (const ImportedSpan& span : run.ranks()[0].spans) {
    if (run.text(span.name) == "CopyHostToDevice") CHECK(span.bytes == Bytes{1 << 20});
  }
}

TEST_CASE("rocpd databases are read without their views, in both versions", "[exchange]") {
  const ImportedRun run = read_one(read_rocpd, "rocpd3.db");
  REQUIRE(run.ranks().size() == 1);
  CHECK(spans_of(run) == std::map<std::string, int>{{"compute: adam", 2},
                                                    {"compute: gemm_backward", 2},
                                                    {"compute: gemm_forward", 2},
                                                    {"copy: MEMORY_COPY_HOST_TO_", 2},
                                                    {"host waits: hipStreamSynchronize", 2},
                                                    {"main thread, annotations: step", 2},
                                                    {"nccl: ncclDevKernel_AllGat", 2},
                                                    {"nccl: ncclDevKernel_Reduce", 2}});
  REQUIRE(run.ranks()[0].memory.size() == 3);
  CHECK(run.ranks()[0].memory[2].allocated == Bytes{1 << 30});

  const ImportedRun joined = read_one(read_rocpd, "rocpd4.db");
  REQUIRE(joined.ranks().size() == 1);
  CHECK(joined.ranks()[0].spans.size() == 10);
  CHECK(busy(joined, OpKind::compute) == busy(run, OpKind::compute) - 2 * (905'000 + 100'000));
  CHECK(busy(joined, OpKind::all_gather) == busy(run, OpKind::all_gather));
}

TEST_CASE("names number steps in the ways that programs do", "[exchange]") {
  CHECK(step_in_name("ProfilerStep#12") == 12);
  CHECK(step_in_name("step 3") == 3);
  CHECK(step_in_name("Iteration: 7") == 7);
  CHECK(step_in_name("train_step_5") == 5);
  CHECK(step_in_name("iter_4 (warm-up)") == 4);
  CHECK(step_in_name("step") == -1);
  CHECK(step_in_name("stepper") == -1);
  CHECK(step_in_name("step 3rd") == -1);
  CHECK(step_in_name("layer 3") == -1);
}

}  // namespace
}  // namespace tessera::exchange
