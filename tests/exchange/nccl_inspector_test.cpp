// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/nccl_inspector.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/exchange/reading.h"
#include "tests/temporary_folder.h"

namespace tessera::exchange {
namespace {

TEST_CASE("logs of NCCL's Inspector tell collectives, their sizes and their kernels' times",
          "[exchange]") {
  ImportedRun run;
  for (const char* name : {"inspector.0.log", "inspector.1.log"}) {
    read_into(run, read_nccl_inspector, data_path(name));
  }
  REQUIRE(run.ranks().size() == 2);
  CHECK(run.world == 2);
  for (const ImportedRank& rank : run.ranks()) {
    CHECK(rank.host == "node7");
    REQUIRE(rank.spans.size() == 4);
    for (const ImportedSpan& span : rank.spans) {
      const auto& collective = rank.collectives[static_cast<std::size_t>(span.collective)];
      CHECK(collective.bytes == Bytes{2 << 20});
      CHECK(collective.sequence >= 1);
      CHECK(span.kind ==
            (collective.sequence % 2 == 1 ? OpKind::all_gather : OpKind::reduce_scatter));
    }
  }
  const ImportedRank& rank = run.ranks()[1];
  CHECK(rank.rank == 1);
  // Verbose records tell when kernels ran; the others end when they were written.
  const auto timed = std::find_if(rank.spans.begin(), rank.spans.end(), [&](const auto& span) {
    return rank.collectives[static_cast<std::size_t>(span.collective)].sequence == 3;
  });
  CHECK(timed->begin == (1'752'867'229'000'000 + 3000 + 10) * 1000);
  CHECK(timed->end - timed->begin == 390'000);
  CHECK(run.groups().size() == 2);
  CHECK(run.warnings().size() == 1);
}

TEST_CASE("a record whose rank is no number is of no rank", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/inspector.log";
  const std::string line =
      R"({"header": {"id": "0x1", "rank": 0, "n_ranks": 2}, "metadata": {)"
      R"("inspector_output_format_version": "v4.0", "dump_timestamp_us": 1752867229000000},)"
      R"( "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 4096,)"
      R"( "coll_exec_time_us": 50}})";
  std::string other = line;
  other.replace(other.find("\"rank\": 0"), 9, R"("rank": "x")");
  std::ofstream(path) << line << '\n' << other << '\n';
  ImportedRun run;
  read_into(run, read_nccl_inspector, path);
  REQUIRE(run.ranks().size() == 1);
  CHECK(run.ranks()[0].spans.size() == 1);
  CHECK(run.warnings().back() == "left out: 1 records of NCCL's Inspector that are no call");
}

/// The `sequence`th call, which begins at so many microseconds or does not say when; written at
/// 1000.
std::string call_line(int sequence, int begin) {
  const std::string times =
      begin > 0 ? R"(, "event_trace_ts": {"coll_start_ts": )" + std::to_string(begin) + "}" : "";
  return R"({"header": {"id": "0x1", "rank": 0, "n_ranks": 2}, "metadata": {)"
         R"("inspector_output_format_version": "v4.0", "dump_timestamp_us": 1000},)"
         R"( "coll_perf": {"coll": "AllReduce", "coll_sn": )" +
         std::to_string(sequence) + R"(, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 50)" +
         times + "}}";
}

TEST_CASE("calls that tell their times keep them where others do not", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/inspector.log";
  std::ofstream(path) << call_line(1, 0) << '\n' << call_line(2, 700) << '\n' << call_line(3, 0);
  ImportedRun run;
  read_into(run, read_nccl_inspector, path);
  std::vector<Time> begins;
  for (const ImportedSpan& span : run.ranks()[0].spans) begins.push_back(span.begin / 1000);
  CHECK(begins == std::vector<Time>{650, 700, 950});
  CHECK(run.warnings()[0].starts_with("2 calls in logs of NCCL's Inspector have durations and no"));
}

TEST_CASE("a line that is no JSON is counted, and those behind it are read", "[exchange]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/inspector.log", good = call_line(1, 700);
  for (const std::string& bad :
       {good.substr(0, 60), good.substr(0, good.size() - 3), good.substr(0, good.size() - 9),
        std::string("NCCL INFO"), std::string(R"({"a": [)"), std::string("\"")}) {
    std::ofstream(path) << good << '\n' << bad << '\n' << call_line(2, 800) << '\n';
    ImportedRun run;
    read_into(run, read_nccl_inspector, path);
    CAPTURE(bad);
    CHECK(run.ranks()[0].spans.size() == 2);
    CHECK(run.warnings().back() == "1 lines in logs of NCCL's Inspector are no JSON: left out");
  }
}

}  // namespace
}  // namespace tessera::exchange
