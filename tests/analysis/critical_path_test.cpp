// SPDX-License-Identifier: Apache-2.0
// Paths of steps whose answer is known, and graphs that give back the times they were made from.
#include "tessera/analysis/critical_path.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "analysis/step_graph.h"
#include "tessera/storage/trace_writer.h"
#include "tests/temporary_folder.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t compute_stream = 0, gather_stream = 1;

/// Times of one op by rank.
struct MadeSpan {
  Time begin, ready, end;
};
struct MadeOp {
  OpKind kind = OpKind::compute;
  std::string unit;
  std::vector<MadeSpan> spans;  // by rank
  std::vector<std::int32_t> after = {};
  std::int32_t step = 0;
};

/// Ops get ids in their order; collectives run on a stream of their own.
Trace written(const std::string& path, const std::vector<MadeOp>& ops, Rank ranks,
              Rank recorded = -1, const std::string& backend = "simulator") {
  if (recorded < 0) recorded = ranks;
  TraceRun run;
  run.backend = backend;
  run.options = "{}";
  run.ranks = ranks;
  run.ranks_per_node = ranks;
  run.recorded_ranks.resize(static_cast<std::size_t>(recorded));
  std::iota(run.recorded_ranks.begin(), run.recorded_ranks.end(), 0);
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  sink.stream({compute_stream, "compute", StreamRole::compute});
  sink.stream({gather_stream, "gather", StreamRole::communication});
  sink.communicator({0, "world", ranks, 1});
  Time end = 0;
  for (std::size_t id = 0; id < ops.size(); ++id) {
    const MadeOp& op = ops[id];
    const bool collective = op.kind != OpKind::compute;
    const auto number = static_cast<std::int32_t>(id);
    sink.op({.id = number,
             .kind = op.kind,
             .stream = collective ? gather_stream : compute_stream,
             .communicator = collective ? 0 : -1,
             .step = op.step,
             .phase = Phase::forward,
             .unit = op.unit,
             .after = op.after});
    std::vector<Time> begins, readies, ends;
    for (const MadeSpan& span : op.spans) {
      begins.push_back(span.begin);
      readies.push_back(span.ready);
      ends.push_back(span.end);
      end = std::max(end, span.end);
    }
    sink.spans({number, run.recorded_ranks, begins, readies, ends});
  }
  const auto count = static_cast<std::size_t>(ranks);
  const std::vector<Time> none(count, 0), ends(count, end);
  const std::vector<Bytes> empty(count, Bytes{});
  sink.rank_steps({0, none, ends, none, none, none, none, none, empty, empty});
  REQUIRE(sink.finish().ok());
  auto trace = Trace::open(path);
  INFO(trace.status().message());
  REQUIRE(trace.ok());
  return std::move(trace).value();
}

CriticalPath path_of(const Trace& trace, std::int32_t step = 0) {
  auto path = critical_path(trace, step);
  INFO(path.status().message());
  REQUIRE(path.ok());
  // Without gaps, and as long as the step.
  Time at = path->begin;
  for (const PathSegment& segment : path->segments) {
    CHECK(segment.from == at);
    CHECK(segment.to > segment.from);
    at = segment.to;
  }
  CHECK(at == path->end);
  return std::move(path).value();
}

/// "0.0 work 0-200" per segment: op, rank, part and times.
std::string text_of(const CriticalPath& path) {
  std::string text;
  for (const PathSegment& s : path.segments) {
    text += (text.empty() ? "" : ", ") + std::to_string(s.op) + "@" + std::to_string(s.rank) + " " +
            std::string(name_of(s.part)) + " " + std::to_string(s.from) + "-" +
            std::to_string(s.to);
  }
  return text;
}

Time gain_of(const CriticalPath& path, const std::string& what) {
  for (const Shortening& row : path.rows) {
    if (row.what == what) return row.gain;
  }
  return -1;
}

TEST_CASE("the path goes through the rank that the others wait for", "[analysis][path]") {
  const test::TemporaryFolder folder;
  const Trace trace =
      written(folder.path() + "/slow.tessera",
              {{OpKind::compute, "a", {{0, 0, 1000}, {0, 0, 2000}}},
               {OpKind::all_gather, "b", {{1000, 2000, 3000}, {2000, 2000, 3000}}, {0}},
               {OpKind::compute, "b", {{3000, 3000, 4000}, {3000, 3000, 4000}}, {1}}},
              2);
  const CriticalPath path = path_of(trace);
  CHECK(text_of(path) == "0@1 work 0-2000, 1@0 work 2000-3000, 2@0 work 3000-4000");
  CHECK(gain_of(path, "forward compute") == 300);
  CHECK(gain_of(path, "all_gather, forward") == 100);
  CHECK(gain_of(path, "a") == 200);
  CHECK(gain_of(path, "b") == 200);
  CHECK(gain_of(path, "rank 1") == 200);  // its second op is no longer than that of rank 0
  CHECK(gain_of(path, "rank 0") == 0);
}

TEST_CASE("a gain ends where another chain is as long", "[analysis][path]") {
  const test::TemporaryFolder folder;
  const Trace trace = written(folder.path() + "/two.tessera",
                              {{OpKind::compute, "a", {{0, 0, 1000}}},
                               {OpKind::all_gather, "b", {{0, 0, 950}}},
                               {OpKind::compute, "b", {{1000, 1000, 1500}}, {1}}},
                              1);
  const CriticalPath path = path_of(trace);
  CHECK(text_of(path) == "0@0 work 0-1000, 2@0 work 1000-1500");
  CHECK(gain_of(path, "a") == 50);
  CHECK(gain_of(path, "forward compute") == 100);  // 50 of a and 50 of b
  CHECK(gain_of(path, "all_gather, forward") == -1);
}

TEST_CASE("where the host is late it is on the path, and kernels gain nothing",
          "[analysis][path]") {
  const test::TemporaryFolder folder;
  std::vector<MadeOp> ops = {{OpKind::compute, "a", {{0, 0, 500}}}};
  for (Time k = 1; k < 4; ++k) {
    ops.push_back({OpKind::compute, "a", {{k * 1000, k * 1000, k * 1000 + 500}}});
  }
  const CriticalPath path = path_of(written(folder.path() + "/host.tessera", ops, 1));
  CHECK(path.time_of(PathPart::host) > 2000);
  CHECK(gain_of(path, "host") == Approx(250).margin(51));
  CHECK(gain_of(path, "forward compute") <= 100);
}

TEST_CASE("a host that was ahead of the device and then late had waited for it",
          "[analysis][path]") {
  const test::TemporaryFolder folder;
  // Late for the second; the third starts as soon as the device comes to it; then the loss is read.
  const Trace trace = written(folder.path() + "/read.tessera",
                              {{OpKind::compute, "a", {{0, 0, 10'000}}},
                               {OpKind::compute, "a", {{30'000, 30'000, 130'000}}},
                               {OpKind::compute, "a", {{131'000, 131'000, 231'000}}},
                               {OpKind::compute, "a", {{631'000, 631'000, 731'000}}}},
                              1, -1, "cuda");
  const CriticalPath path = path_of(trace);
  CHECK(gain_of(path, "forward compute") == 30'000);
  CHECK(path.time_of(PathPart::host) == 431'000);
}

TEST_CASE(
    "on a real GPU a step is shorter by what its work is, though losses are read between steps",
    "[analysis][path]") {
  auto trace = Trace::open(TESSERA_SOURCE_DIR "/traces/real-h100.tessera");
  REQUIRE(trace.ok());
  const CriticalPath path = path_of(*trace, typical_step(*trace));
  for (const Shortening& row : path.rows) {
    if (row.what == "backward compute") CHECK(row.gain == Approx(row.on_path / 10).epsilon(0.01));
  }
  CHECK(gain_of(path, "backward compute") > 2'000'000);
}

TEST_CASE("the path of an imported run does not follow annotations, which only say what ran",
          "[analysis][path]") {
  const auto trace = Trace::open(TESSERA_SOURCE_DIR "/traces/torch-fsdp2.tessera");
  REQUIRE(trace.ok());
  const CriticalPath path = path_of(*trace, typical_step(*trace));
  Time longest = 0;
  for (const PathSegment& segment : path.segments) {
    CHECK(trace->stream(segment.stream).role != StreamRole::host);
    longest = std::max(longest, segment.to - segment.from);
  }
  CHECK(2 * longest < path.end - path.begin);
  // The main thread computes, so what it waited for is on the path.
  CHECK(gain_of(path, "reduce_scatter, backward") > 0);
  CHECK(path.rows.front().gain > 0);
}

TEST_CASE("who waits for a rank that was not recorded is told so", "[analysis][path]") {
  const test::TemporaryFolder folder;
  const Trace trace = written(folder.path() + "/far.tessera",
                              {{OpKind::compute, "a", {{0, 0, 1000}}},
                               {OpKind::all_gather, "b", {{1000, 1700, 2000}}, {0}},
                               {OpKind::compute, "b", {{2000, 2000, 2500}}, {1}}},
                              2, 1);
  const CriticalPath path = path_of(trace);
  CHECK(text_of(path) ==
        "0@0 work 0-1000, 1@0 wait 1000-1700, 1@0 work 1700-2000, 2@0 work 2000-2500");
  CHECK(path.time_of(PathPart::wait) == 700);
}

TEST_CASE("steps that do not exist have no path, and a run without steps has no typical one",
          "[analysis][path]") {
  const test::TemporaryFolder folder;
  const Trace trace =
      written(folder.path() + "/one.tessera", {{OpKind::compute, "a", {{0, 0, 1000}}}}, 1);
  CHECK(typical_step(trace) == 0);
  CHECK(critical_path(trace, 1)->step == -1);
  CHECK(critical_path(trace, -1)->segments.empty());
}

TEST_CASE("the graph of a recorded step gives its times back, and sums of gains are bounded",
          "[analysis][path]") {
  const auto trace = Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  REQUIRE(trace.ok());
  for (std::int32_t step = 0; step < 2; ++step) {
    const auto graph = StepGraph::read(*trace, step, trace->run().recorded_ranks);
    REQUIRE(graph.ok());
    const StepGraph::Marks none(graph->spans().size());
    StepGraph::Ends laid_out;
    graph->ends_if(none, shortened_by, false, laid_out);
    const std::vector<Time>& ends = laid_out.now;
    std::int64_t other = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) other += ends[i] != graph->spans()[i].end;
    CHECK(other == 0);
    const CriticalPath path = path_of(*trace, step);
    // Rank 5 was made slow: nobody else's computations are worth as much.
    for (const Shortening& row : path.rows) {
      CHECK(row.gain >= 0);
      CHECK(static_cast<double>(row.gain) <= 0.1 * static_cast<double>(path.end - path.begin) + 1);
      if (row.group != PathGroup::rank) continue;
      CHECK(row.what == "rank 5");
      break;
    }
  }
}

}  // namespace
}  // namespace tessera::analysis
