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

/// The database that `sql` makes, imported.
ImportedRun made(FormatReader reader, const std::string& sql) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/made.db";
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  CHECK(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(connection);
  ImportedRun run;
  read_into(run, reader, path);
  return run;
}

// Two processes, of which one has no device: 0x1000001 and 0x1000002, shifted by 24 bits.
constexpr const char* two_processes = R"(
  CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
  INSERT INTO StringIds VALUES(1, 'gemm');
  CREATE TABLE NVTX_EVENTS(start INT, end INT, eventType INT, text TEXT, globalTid INT);
  INSERT INTO NVTX_EVENTS VALUES(1000, 9000, 59, 'step 0', 281474993487883),
                                (2000, 3000, 59, 'load', 281475010265093);)";

TEST_CASE("a process without a device is no rank where others have one", "[exchange]") {
  const ImportedRun run = made(read_nsys, std::string(two_processes) + R"(
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT,
                                            globalPid INT, shortName INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(2000, 5000, 0, 7, 281474993487872, 1);
    CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start INT, globalPid INT, deviceId INT, bytes INT,
                                              memKind INT, memoryOperationType INT);
    INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES(1, 281474993487872, 5, 4096, 2, 0);)");
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].spans.size() == 2);
  CHECK(run.warnings().back() ==
        "left out: 1 events of memory of devices on which nothing ran, 1 events of processes "
        "without a "
        "device");
}

TEST_CASE("exports that do not say of which process a kernel is have one rank", "[exchange]") {
  const ImportedRun run = made(read_nsys, std::string(two_processes) + R"(
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, streamId INT,
                                            shortName INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(2000, 5000, 0, 7, 1);)");
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].spans.size() == 3);
  CHECK(run.ranks()[0].steps.size() == 1);
}

TEST_CASE("rocpd databases may lack kernels, and kernels their device", "[exchange]") {
  const ImportedRun marks = made(read_rocpd, R"(
    CREATE TABLE rocpd_string_1(id INT, string TEXT);
    INSERT INTO rocpd_string_1 VALUES(1, 'step 0'), (2, 'MARKER_CORE_API'), (3, 'hipMalloc');
    CREATE TABLE rocpd_event_1(id INT, category_id INT);
    INSERT INTO rocpd_event_1 VALUES(1, 2);
    CREATE TABLE rocpd_region_1(id INT, pid INT, tid INT, start INT, end INT, name_id INT,
                                event_id INT);
    INSERT INTO rocpd_region_1 VALUES(1, 7, 8, 0, 9000, 1, 1), (2, 7, 8, 100, 200, 3, NULL);
    CREATE TABLE rocpd_sample_1(id INT);
    INSERT INTO rocpd_sample_1 VALUES(1);)");
  REQUIRE(marks.ranks().size() == 1);
  CHECK(marks.ranks()[0].spans.size() == 1);
  CHECK(marks.warnings().back() == "left out: 1 calls of the runtime, 1 events of rocpd_sample_1");

  const ImportedRun lost = made(read_rocpd, R"(
    CREATE TABLE rocpd_track_1(id INT, pid INT, tid INT, agent_id INT, stream_id INT);
    INSERT INTO rocpd_track_1 VALUES(1, 7, 8, 2, 1);
    CREATE TABLE rocpd_timestamp_1(id INT, value INT);
    INSERT INTO rocpd_timestamp_1 VALUES(1, 1000), (2, 2000);
    CREATE TABLE rocpd_kernel_dispatch_1(id INT, track_id INT, start_id INT, end_id INT);
    INSERT INTO rocpd_kernel_dispatch_1 VALUES(1, 1, 1, 2), (2, 99, 1, 2), (3, 1, 2, 99);)");
  REQUIRE(lost.ranks().size() == 1);
  CHECK(lost.ranks()[0].spans.size() == 1);
  CHECK(lost.warnings().back() ==
        "left out: 1 events without an end or with impossible times, 1 kernels that do not say on "
        "which "
        "device they ran");
}

/// The database of that name with `sql` carried out, and what the import has left out of it.
std::string left_out(Status (*read)(SourceFile&, const ImportLimits&, ImportedRun&),
                     const std::string& name, const std::string& sql) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/" + name;
  std::filesystem::copy_file(data_path(name), path);
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  CHECK(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(connection);
  ImportedRun run;
  read_into(run, read, path);
  return run.warnings().empty() ? "" : run.warnings().back();
}

TEST_CASE("what databases have and an import leaves out is counted", "[exchange]") {
  CHECK(left_out(read_nsys, "nsys.sqlite",
                 "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start, start + 9, eventClass, "
                 "globalTid, 0, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME;"
                 "INSERT INTO NVTX_EVENTS SELECT start, end, eventType, NULL, globalTid, NULL, 0 "
                 "FROM NVTX_EVENTS LIMIT 1;"
                 "UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET memKind = 1 WHERE bytes = 1048576") ==
        "left out: 2 NVTX events that are no ranges, 1 NVTX ranges without a name, "
        "2 calls of the runtime, "
        "2 events of memory that is not the device's");
  CHECK(left_out(read_rpd, "rpd.rpd",
                 "INSERT INTO rocpd_string VALUES (99, 'hipLaunchKernel');"
                 "INSERT INTO rocpd_api (pid, tid, start, end, apiName_id, category_id, domain_id, "
                 "args_id) SELECT pid, tid, start, end, 99, 0, 0, 0 FROM rocpd_api LIMIT 3")
            .find("5 calls of the runtime") != std::string::npos);
  const std::string id = "_00001c92_7c2e_7d3a_9c51_f1b2c3d4e5f6";
  const std::string lost =
      left_out(read_rocpd, "rocpd3.db",
               "UPDATE rocpd_region" + id + " SET \"end\" = start + 9;" +
                   "UPDATE rocpd_memory_allocate" + id + " SET level = 'VIRTUAL' WHERE id = 1");
  CHECK(lost.find("2 calls of the runtime") != std::string::npos);
  CHECK(lost.find("1 events of memory that is reserved only") != std::string::npos);
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
