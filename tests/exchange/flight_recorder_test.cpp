// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/flight_recorder.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "exchange/formats/flight_dumps.h"
#include "tests/exchange/reading.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

ImportedRun read_dumps(const std::vector<std::string>& names) {
  ImportedRun run;
  for (const std::string& name : names) read_into(run, read_flight_recorder, data_path(name));
  test::require_ok(conclude_flight_recorder(run));
  return run;
}

std::vector<std::string> dumps(const std::string& scenario, const std::string& extension,
                               std::initializer_list<int> ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    names.push_back("flight_" + scenario + "_rank_" + std::to_string(rank) + extension);
  }
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

TEST_CASE("dumps of gloo name the rank that did not come, and for what", "[exchange]") {
  const std::string extension = GENERATE(as<std::string>(), ".pickle", ".json");
  const ImportedRun run = read_dumps(dumps("missing", extension, {0, 1, 2}));
  REQUIRE(run.diagnostics.size() == 1);
  const ImportedDiagnostic& finding = run.diagnostics[0];
  CHECK(finding.code == "missing_collective");
  CHECK(finding.rank == 2);
  contains(finding.message,
           "Rank 2 has not called all_reduce 5 of default_pg (1024 elements of Float), which ranks "
           "0-1 called");
  contains(finding.message, "the last one of rank 2 there was all_gather 4");
  if (extension == ".pickle") contains(finding.message, "in train (record_flight_recorder.py:");
}

TEST_CASE("a rank without a dump is named by what the others know", "[exchange]") {
  const ImportedRun run = read_dumps(dumps("missing", ".pickle", {0, 1}));
  CHECK(run.world == 3);
  REQUIRE(run.diagnostics.size() == 1);
  CHECK(run.diagnostics[0].code == "missing_rank");
  CHECK(run.diagnostics[0].rank == 2);
  contains(run.diagnostics[0].message, "Rank 2 left no dump");
  contains(run.diagnostics[0].message, "all_reduce 5 of default_pg");
}

TEST_CASE("collectives of other sizes are named with the ranks of each", "[exchange]") {
  const ImportedRun run = read_dumps(dumps("mismatch", ".pickle", {0, 1, 2}));
  REQUIRE_FALSE(run.diagnostics.empty());
  const ImportedDiagnostic& finding = run.diagnostics[0];
  CHECK(finding.code == "collective_mismatch");
  CHECK(finding.rank == 1);
  contains(finding.message,
           "Collective 5 of default_pg is not the same everywhere: rank 1 called "
           "broadcast of 1024 elements of Float");
  contains(finding.message, "ranks 0, 2 called all_reduce of 1024 elements of Float");
}

TEST_CASE("collectives of dumps have groups, numbers, sizes and an order", "[exchange]") {
  const ImportedRun run = read_dumps(dumps("missing", ".pickle", {0, 1, 2}));
  REQUIRE(run.ranks().size() == 3);
  const ImportedRank& rank = run.ranks()[0];
  CHECK(rank.rank == 0);
  REQUIRE(rank.spans.size() == 8);
  const ImportedSpan& gather = rank.spans[6];
  CHECK(gather.kind == OpKind::all_gather);
  const auto& collective = rank.collectives[static_cast<std::size_t>(gather.collective)];
  CHECK(collective.sequence == 4);
  CHECK(collective.bytes == Bytes{3 * 1024 * 4});
  CHECK(collective.dtype == DType::float32);
  CHECK(run.groups()[static_cast<std::size_t>(collective.group)].description == "default_pg");
  for (const ImportedSpan& span : rank.spans) CHECK(span.end > span.begin);
}

/// A dump of NCCL as its JSON, in which `calls` have been enqueued and `ended` of them have ended.
std::string nccl_dump(int ranks, int calls, int ended, int other_size_at = 0, int forgotten = 0) {
  std::string members, entries;
  for (int rank = 0; rank < ranks; ++rank) {
    members += (rank == 0 ? "" : ", ") + std::to_string(rank);
  }
  for (int i = forgotten + 1; i <= calls; ++i) {
    const bool done = i <= ended;
    const int in = i == other_size_at ? 100 : 128;
    entries += std::string(entries.empty() ? "" : ",") +
               R"({"pg_id":0,"process_group":["7","fsdp"],)" + R"("collective_seq_id":)" +
               std::to_string(i) + R"(,"profiling_name":)" +
               (i % 2 == 1 ? R"("nccl:_all_gather_base")" : R"("nccl:_reduce_scatter_base")") +
               R"(,"input_sizes":[[)" + std::to_string(i % 2 == 1 ? in : in * ranks) +
               R"(]],"output_sizes":[[)" + std::to_string(i % 2 == 1 ? in * ranks : in) +
               R"(]],"input_dtypes":["BFloat16"],"is_p2p":false,"retired":true,"state":")" +
               (done ? "completed" : "started") + R"(","time_created_ns":)" +
               std::to_string(1000 * i) + R"(,"time_discovered_started_ns":)" +
               std::to_string(1000 * i + 100) + R"(,"time_discovered_completed_ns":)" +
               (done ? std::to_string(1000 * i + 900) : "0") + R"(,"timeout_ms":600000})";
  }
  return R"({"version":"2.10","pg_config":{"7":{"name":"7","desc":"fsdp","ranks":"[)" + members +
         R"(]"}},"pg_status":{"0":{"last_enqueued_collective":")" + std::to_string(calls) +
         R"("}},"entries":[)" + entries + "]}";
}

/// The same of a recorder that was not asked for its groups.
std::string without_groups(std::string dump) {
  const std::size_t from = dump.find("{\"7\""), to = dump.find(",\"pg_status\"");
  return dump.replace(from, to - from, "{}");
}

std::vector<ImportedDiagnostic> findings(const std::vector<std::pair<int, std::string>>& all) {
  const test::TemporaryFolder folder;
  ImportedRun run;
  for (const auto& [rank, text] : all) {
    const std::string path = folder.path() + "/trace_rank_" + std::to_string(rank);
    std::ofstream(path) << text;
    read_into(run, read_flight_recorder, path);
  }
  test::require_ok(conclude_flight_recorder(run));
  return run.diagnostics;
}

TEST_CASE("dumps of NCCL tell who is late, who is gone, and what does not end", "[exchange]") {
  SECTION("nothing is wrong") {
    CHECK(findings({{0, nccl_dump(2, 6, 6)}, {1, nccl_dump(2, 6, 6)}}).empty());
  }
  SECTION("a dump lacks the list of groups") {
    const std::string whole = nccl_dump(3, 6, 6), other = without_groups(whole);
    REQUIRE(other.size() < whole.size());
    CHECK(findings({{0, other}, {1, whole}, {2, whole}}).empty());
    CHECK(findings({{0, whole}, {1, other}, {2, whole}}).empty());
    CHECK(findings({{0, other}, {1, other}, {2, other}}).empty());
  }
  SECTION("one is behind") {
    const auto found =
        findings({{0, nccl_dump(3, 6, 4)}, {1, nccl_dump(3, 4, 4)}, {2, nccl_dump(3, 6, 4)}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].rank == 1);
    contains(found[0].message,
             "Rank 1 has not called all_gather 5 of fsdp (128 to 384 elements of "
             "BFloat16), which ranks 0, 2 called");
  }
  SECTION("the dump of the one that is behind is absent") {
    const auto found = findings({{0, nccl_dump(3, 5, 4)}, {2, nccl_dump(3, 5, 4)}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == "missing_rank");
    CHECK(found[0].rank == 1);
    contains(found[0].message, "Rank 1 left no dump, and all_gather 5 of fsdp");
  }
  SECTION("all have called it and it does not end") {
    const auto found = findings({{0, nccl_dump(2, 5, 4)}, {1, nccl_dump(2, 5, 4)}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == "unfinished_collective");
  }
  SECTION("one calls it with another size") {
    const auto found =
        findings({{0, nccl_dump(3, 5, 3)}, {1, nccl_dump(3, 5, 3)}, {2, nccl_dump(3, 5, 3, 4)}});
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == "collective_mismatch");
    CHECK(found[0].rank == 2);
    contains(found[0].message, "Collective 4 of fsdp");
  }
  SECTION("what a recorder has forgotten is not missing") {
    CHECK(findings({{0, nccl_dump(2, 9, 9)}, {1, nccl_dump(2, 9, 9, 0, 6)}}).empty());
  }
}

// PyTorch 2.1 and 2.2.
TEST_CASE("a list of entries alone, with one number for all calls, is a dump", "[exchange]") {
  std::string dump = nccl_dump(2, 3, 3);
  dump = dump.substr(dump.find("\"entries\":") + 10);
  dump.pop_back();
  for (std::size_t at = 0; (at = dump.find("collective_seq_id", at)) != std::string::npos;) {
    dump.replace(at, 17, "seq_id");
  }
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/trace_rank_0";
  std::ofstream(path) << dump;
  const Result<SourceFile> source = SourceFile::open(path);
  test::require_ok(source.status());
  CHECK(is_flight_recorder(*source));
  ImportedRun run;
  read_into(run, read_flight_recorder, path);
  REQUIRE(run.ranks().size() == 1);
  REQUIRE(run.ranks()[0].collectives.size() == 3);
  CHECK(run.ranks()[0].collectives[2].sequence == 3);
}

TEST_CASE("sends and receives that have not ended are counted", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/trace_rank_0";
  std::ofstream(path) << R"({"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": [
    {"process_group": ["0", "default_pg"], "collective_seq_id": 1, "is_p2p": true,
     "profiling_name": "nccl:send 0->1", "state": "started", "time_created_ns": 1700000000000000000,
     "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"]}]})";
  ImportedRun run;
  read_into(run, read_flight_recorder, path);
  test::require_ok(conclude_flight_recorder(run));
  REQUIRE(run.warnings().size() == 1);
  contains(run.warnings()[0], "1 sends and receives of the Flight Recorder have not ended");
}

TEST_CASE("two dumps of one rank are refused", "[exchange]") {
  ImportedRun run;
  read_into(run, read_flight_recorder, data_path("flight_missing_rank_0.pickle"));
  Result<SourceFile> source = SourceFile::open(data_path("flight_missing_rank_0.json"));
  test::require_ok(source.status());
  const Status status = read_flight_recorder(*source, test_limits, run);
  CHECK(status.code() == Code::invalid_argument);
  contains(status.message(), "is of rank 0, too");
}

}  // namespace
}  // namespace tessera::exchange
