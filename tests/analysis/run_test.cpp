// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/run.h"

#include <catch2/catch.hpp>

#include "tessera/storage/trace_writer.h"

namespace tessera::analysis {
namespace {

const std::string trace_path = std::string(TESSERA_BINARY_DIR) + "/analysis_run_test.tessera";

TraceRun small_run() {
  TraceRun run;
  run.name = "small";
  run.ranks = 4;
  run.ranks_per_node = 4;
  run.tokens_per_step = 8000;
  run.model_flops_per_step = 4e9;
  run.peak_flops_per_rank = 1e12;
  run.memory_per_rank = Bytes{1000};
  run.recorded_ranks = {1};
  run.options = "{}";
  return run;
}

// Step s of rank r takes 1000 * (s + 1) + 10 * r us; rank 3 computes longest and never waits.
void write_steps(TraceSink& sink, std::int32_t steps) {
  std::vector<Time> begin(4, 0);
  for (std::int32_t step = 0; step < steps; ++step) {
    std::vector<Time> end = begin;
    for (std::size_t r = 0; r < 4; ++r) {
      end[r] += 1'000'000 * (step + 1) + 10'000 * static_cast<Time>(r);
    }
    const std::vector<Time> compute = {700, 700, 700, 900};
    const std::vector<Time> communication(4, 100);
    const std::vector<Time> exposed = {250, 250, 250, 40};
    const std::vector<Time> blocking = {240, 240, 240, 30};
    const std::vector<Time> wait = {200, 200, 200, 0};
    const std::vector<Bytes> allocated = {Bytes{500}, Bytes{500}, Bytes{500 + 10 * step}, Bytes{5}};
    const std::vector<Bytes> reserved = {Bytes{600}, Bytes{600}, Bytes{640}, Bytes{60}};
    sink.rank_steps(
        {step, begin, end, compute, communication, exposed, blocking, wait, allocated, reserved});
    PeakMemory peak{.step = step, .first_rank = 0, .end_rank = 3};
    peak.allocated = Bytes{500 + 10 * step};
    peak.reserved = Bytes{640};
    peak.by_class[static_cast<std::size_t>(MemoryClass::activations)] = peak.allocated;
    peak.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] =
        peak.reserved - peak.allocated;
    sink.peak_memory(peak);
    begin = end;
  }
}

// Two all_gathers and an all_reduce of 4 ranks, on rank 1.
void write_ops(TraceSink& sink) {
  sink.stream({0, "default", StreamRole::compute});
  sink.stream({1, "communication", StreamRole::communication});
  sink.communicator({0, "world", 4, 1});
  sink.unit({0, "root", 2, Numel{100}, Numel{4}});
  const Rank rank = 1;
  Time begin = 0;
  std::int32_t id = 0;
  const auto collective = [&](OpKind kind, Bytes bytes, Time wait, Time transfer) {
    TraceOp op{.id = id, .kind = kind, .stream = 1, .communicator = 0, .bytes = bytes};
    sink.op(op);
    const Time ready = begin + wait;
    const Time end = ready + transfer;
    sink.spans({id, {&rank, 1}, {&begin, 1}, {&ready, 1}, {&end, 1}});
    begin = end;
    ++id;
  };
  collective(OpKind::all_gather, Bytes{4000}, 50, 1000);   // 3 GB/s on the bus
  collective(OpKind::all_gather, Bytes{4000}, 150, 3000);  // 1 GB/s
  collective(OpKind::all_reduce, Bytes{4000}, 0, 1000);    // 6 GB/s
  sink.kernel({rank, 0, 500});                             // 6 GB/s
  sink.kernel({rank, 1, 750});                             // 4 GB/s
  sink.kernel({0, 0, 480});
  sink.kernel({2, 0, 400});  // began 100 ns after the first
  sink.kernel({3, 0, 490});
  sink.kernel({0, 1, 700});  // began 50 ns after the first
  sink.kernel({3, 1, 740});  // and nothing is known of rank 2
  TraceOp compute{.id = id, .kind = OpKind::compute, .stream = 0};
  sink.op(compute);
  const Time end = begin + 10;
  sink.spans({id, {&rank, 1}, {&begin, 1}, {&begin, 1}, {&end, 1}});
}

RunReport report_on(const TraceRun& run, std::int32_t steps) {
  auto writer = storage::TraceWriter::create(trace_path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  if (!run.recorded_ranks.empty()) write_ops(sink);
  write_steps(sink, steps);
  sink.diagnostic({TraceDiagnostic::Severity::error, "out_of_memory", 2, -1, 7, "no room"});
  REQUIRE(sink.finish().ok());
  const auto trace = Trace::open(trace_path);
  REQUIRE(trace.ok());
  auto report = report_of(*trace);
  REQUIRE(report.ok());
  return std::move(report).value();
}

}  // namespace

TEST_CASE("step times are taken over ranks, the steady one without the first step", "[analysis]") {
  const RunReport report = report_on(small_run(), 4);
  REQUIRE(report.figures.steps.size() == 4);
  CHECK(report.figures.steps[0].min == 1'000'000);
  CHECK(report.figures.steps[0].median == 1'015'000);
  CHECK(report.figures.steps[0].max == 1'030'000);
  CHECK(report.figures.steps[0].slowest == 3);
  CHECK(report.figures.step_time_steady == 3'015'000);  // of 2'015'000, 3'015'000 and 4'015'000
}

TEST_CASE("a single step is its own steady state", "[analysis]") {
  const RunReport report = report_on(small_run(), 1);
  CHECK(report.figures.step_time_steady == 1'015'000);
  CHECK(report.figures.ranks.at(3).step == 1'030'000);
}

TEST_CASE("throughput and MFU follow from the steady step time", "[analysis]") {
  const RunReport report = report_on(small_run(), 4);
  CHECK(*report.figures.tokens_per_s == Approx(8000 / 3.015e-3));
  CHECK(*report.figures.tokens_per_s_per_gpu == Approx(2000 / 3.015e-3));
  CHECK(*report.figures.flops_per_s_per_gpu == Approx(1e9 / 3.015e-3));
  CHECK(*report.figures.mfu == Approx(1e9 / 3.015e-3 / 1e12));
}

TEST_CASE("what the run does not know is not made up", "[analysis]") {
  TraceRun run = small_run();
  run.tokens_per_step = 0;
  run.model_flops_per_step = 0;
  run.memory_per_rank = Bytes{};
  run.recorded_ranks = {};
  const RunReport report = report_on(run, 2);
  CHECK_FALSE(report.figures.tokens_per_s.has_value());
  CHECK_FALSE(report.figures.mfu.has_value());
  CHECK_FALSE(report.figures.headroom.has_value());
  CHECK(report.communication.kinds.empty());
}

TEST_CASE("time shares are means over ranks and steady steps", "[analysis]") {
  const TimeShares shares = report_on(small_run(), 3).figures.shares;
  CHECK(shares.step == 2'515'000);
  CHECK(shares.compute == 750);
  CHECK(shares.wait == 150);
  CHECK(shares.communication == 250);
  CHECK(shares.exposed == (3 * 250 + 40) / 4);
  CHECK(shares.overlapped == 250 - (3 * 250 + 40) / 4);
  CHECK(shares.blocking == (3 * 240 + 30) / 4);
}

TEST_CASE("memory is that of the step with the highest peak", "[analysis]") {
  const RunReport report = report_on(small_run(), 3);
  CHECK(report.figures.peak_step == 2);
  REQUIRE(report.figures.peaks.size() == 1);
  CHECK(report.figures.peaks[0].allocated == Bytes{520});
  CHECK(report.figures.peak_reserved == Bytes{640});
  CHECK(report.figures.reserved_step == 0);
  CHECK(*report.figures.headroom == Bytes{360});
}

TEST_CASE("collectives are counted by kind, timed on the first recorded rank", "[analysis]") {
  const RunReport report = report_on(small_run(), 2);
  REQUIRE(report.communication.kinds.size() == 2);
  const CommunicationKind& gather = report.communication.kinds[0];
  CHECK(gather.kind == OpKind::all_gather);
  CHECK(gather.count == 2);
  CHECK(gather.bytes == Bytes{8000});
  CHECK(*gather.transfer == 4000);
  CHECK(*gather.wait == 200);
  CHECK(*gather.bus_bandwidth_bytes_per_s == Approx(2e9));
  CHECK(*gather.kernel == 1250);
  CHECK(*gather.kernel_bus_bandwidth_bytes_per_s == Approx(5e9));
  const CommunicationKind& reduce = report.communication.kinds[1];
  CHECK_FALSE(reduce.kernel.has_value());
  CHECK_FALSE(reduce.spread.has_value());
  CHECK(reduce.kind == OpKind::all_reduce);
  CHECK(*reduce.bus_bandwidth_bytes_per_s == Approx(6e9));
}

TEST_CASE("kernels of all ranks tell who began last, and of whom nothing is known", "[analysis]") {
  const Collectives collectives = report_on(small_run(), 2).communication;
  const auto& spread = collectives.kinds.at(0).spread;
  REQUIRE(spread.has_value());
  CHECK(spread->sum == 150);
  CHECK(spread->last == 2);
  CHECK(spread->caused == 100);
  CHECK(collectives.without_kernel == std::map<Rank, std::int64_t>{{2, 1}});
}

TEST_CASE("ranks in several groups are not held against each other", "[analysis]") {
  TraceRun run = small_run();
  run.ranks = 8;
  run.recorded_ranks = {1};
  auto writer = storage::TraceWriter::create(trace_path);
  REQUIRE(writer.ok());
  (*writer)->begin(run);
  write_ops(**writer);
  REQUIRE((*writer)->finish().ok());
  const auto trace = Trace::open(trace_path);
  REQUIRE(trace.ok());
  const auto collectives = collectives_of(*trace);
  REQUIRE(collectives.ok());
  CHECK(*collectives->kinds.at(0).kernel == 1250);
  CHECK_FALSE(collectives->kinds.at(0).spread.has_value());
  CHECK(collectives->without_kernel.empty());
}

TEST_CASE("the rank that the others wait for causes the wait", "[analysis]") {
  const RunReport report = report_on(small_run(), 3);
  const auto culprits = worst_ranks(report.figures, &RankMeans::wait_caused, 2);
  REQUIRE(culprits.size() == 2);
  CHECK(culprits[0].rank == 3);
  CHECK(culprits[0].wait_caused == 150);
  CHECK(culprits[1].rank == 0);
  CHECK(worst_ranks(report.figures, &RankMeans::step, 1)[0].rank == 3);
  CHECK(worst_ranks(report.figures, &RankMeans::compute, 99).size() == 4);
}

TEST_CASE("diagnostics are passed on", "[analysis]") {
  const RunReport report = report_on(small_run(), 1);
  REQUIRE(report.diagnostics.size() == 1);
  CHECK(report.diagnostics[0].code == "out_of_memory");
  CHECK(report.diagnostics[0].rank == 2);
}

}  // namespace tessera::analysis
