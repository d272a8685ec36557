// SPDX-License-Identifier: Apache-2.0
// What follows from times is found out when and where the sink likes: the trace is the same.
#include "tessera/storage/trace_reader.h"
#include "tessera/storage/trace_writer.h"
#include "tests/backends/host/recorded_trace.h"
#include "tests/backends/host/trace_checks.h"
#include "tests/backends/host/traced_run.h"
#include "tests/storage/passing_sink.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

// All that depends on times.
std::vector<std::string> timed_lines(const test::RecordedTrace& trace) {
  std::vector<std::string> lines = trace.peaks;
  for (const auto& [id, spans] : trace.spans_of) {
    for (const auto& [rank, s] : spans) {
      lines.push_back(fmt::format("op {} rank {}: {} {} {}", id, rank, s.begin, s.ready, s.end));
    }
  }
  for (const auto& [rank, samples] : trace.memory_of) {
    for (const MemorySample& s : samples) {
      lines.push_back(fmt::format("rank {} at {}: buffer {} {} {} {}", rank, s.time, s.buffer,
                                  s.delta.value, s.allocated.value, s.reserved.value));
    }
  }
  for (const auto& step : trace.steps) {
    for (const auto& s : step) {
      lines.push_back(fmt::format("step {} {} {} {} {} {}", s.begin, s.end, s.compute, s.exposed,
                                  s.blocking, s.peak_allocated.value));
    }
  }
  return lines;
}

TEST_CASE("a sink may find out what follows from times whenever it likes, even after the run",
          "[host]") {
  for (const auto& [name, scheme] : test::schemes()) {
    if (name.find("groups of 2") != std::string::npos) continue;
    INFO(name);
    const test::Run run = test::training_run(scheme, 1);
    test::RecordedTrace at_once;
    test::LateTrace late;
    test::require_all_ok(test::traced(run, at_once, test::SkewedClocks()));
    test::require_all_ok(test::traced(run, late, test::SkewedClocks()));
    CHECK(late.spans_of.empty());
    late.catch_up();
    CHECK(late.order == at_once.order);
    CHECK(timed_lines(late) == timed_lines(at_once));
  }
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair", "shared"}}, 4);
  test::LateTrace late;
  test::require_all_ok(test::traced(run, late, test::SkewedClocks()));
  late.catch_up();
  test::check_times(late, run.ranks);
  test::check_memory(late, run.ranks);
}

std::string written(const test::Run& run, const std::string& path, bool by_caller) {
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceRun about{.options = "{}"};
  about.ranks = about.ranks_per_node = run.ranks;
  for (Rank rank = 0; rank < run.ranks; ++rank) about.recorded_ranks.push_back(rank);
  (*writer)->begin(about);
  test::PassingSink passing(**writer);  // which does at once what it is told to defer
  TraceSink& sink = by_caller ? static_cast<TraceSink&>(passing) : **writer;
  test::require_all_ok(test::traced(run, sink, test::SkewedClocks()));
  const Status status = (*writer)->finish();
  INFO(status.message());
  REQUIRE(status.ok());
  return (*writer)->content_hash();
}

TEST_CASE("a run's trace is the same whichever thread found out what follows from its times",
          "[host]") {
  const test::TemporaryFolder folder;
  for (const auto& [name, scheme] : test::schemes()) {
    if (name.find("groups of 2") != std::string::npos) continue;
    INFO(name);
    const test::Run run = test::training_run(scheme, 1);
    CHECK(written(run, folder.path() + "/a.tessera", true) ==
          written(run, folder.path() + "/b.tessera", false));
  }
}

TEST_CASE("ranks on threads and the thread that writes their trace do not disturb each other",
          "[host]") {
  const test::TemporaryFolder folder;
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair", "shared"}}, 4);
  written(run, folder.path() + "/run.tessera", false);
  auto reader = storage::TraceReader::open(folder.path() + "/run.tessera");
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
}

}  // namespace
}  // namespace tessera
