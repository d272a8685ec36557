// SPDX-License-Identifier: Apache-2.0
// Traces of single ranks become the trace of all of them.
#include "tessera/exchange/merge.h"

#include "engine/backends/host/one_rank_sink.h"
#include "tessera/storage/trace_reader.h"
#include "tessera/storage/trace_writer.h"
#include "tests/backends/host/trace_checks.h"
#include "tests/backends/host/traced_run.h"
#include "tests/storage/passing_sink.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using storage::TraceReader;
using storage::TraceWriter;

constexpr Rank merge_ranks = 4;

// What one rank knows of a run, by a clock that is ahead, up to an operation.
class AsOneRankKnows final : public test::PassingSink {
 public:
  AsOneRankKnows(TraceSink& to, Time ahead, std::int32_t until)
      : PassingSink(to), ahead_(ahead), until_(until) {}

  void spans(const SpanBatch& all) override {
    if (all.op >= until_) return;
    std::vector<Time> begin(all.begin.begin(), all.begin.end()),
        end(all.end.begin(), all.end.end());
    for (Time& time : begin) time += ahead_;
    for (Time& time : end) time += ahead_;
    to_.spans({all.op, all.ranks, begin, begin, end});
  }
  void memory(std::span<const MemorySample> samples) override {
    std::vector<MemorySample> later(samples.begin(), samples.end());
    for (MemorySample& sample : later) sample.time += ahead_;
    to_.memory(later);
  }
  void rank_steps(const RankStepBatch& all) override {
    std::vector<Time> begin(all.begin.begin(), all.begin.end()),
        end(all.end.begin(), all.end.end()),
        transfer(all.communication.begin(), all.communication.end()), none(all.wait.size());
    for (std::size_t r = 0; r < none.size(); ++r) {
      begin[r] += ahead_;
      end[r] += ahead_;
      transfer[r] += all.wait[r];
    }
    to_.rank_steps({all.step, begin, end, all.compute, transfer, all.exposed, all.blocking, none,
                    all.peak_allocated, all.peak_reserved});
  }

 private:
  const Time ahead_;
  const std::int32_t until_;
};

// Records a simulation of ranks that differ; of one rank only, as it knows it, or of all.
void record(const test::Run& run, const std::string& path, std::optional<Rank> only, Time ahead,
            std::int32_t until = std::numeric_limits<std::int32_t>::max()) {
  auto writer = TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceRun about{.options = "{}", .ranks = run.ranks, .ranks_per_node = run.ranks};
  for (Rank r = 0; r < run.ranks; ++r) {
    if (!only || *only == r) about.recorded_ranks.push_back(r);
  }
  (*writer)->begin(about);
  AsOneRankKnows knows(**writer, ahead, until);
  OneRankSink one(knows, only.value_or(0));
  const test::TestCosts costs;
  auto simulator =
      sim::LockstepRuntime::create({.world_size = run.ranks,
                                    .cost = &costs,
                                    .seed = 5,
                                    .jitter = 0.3,
                                    .numerics = true,
                                    .aio = {},
                                    .sink = only ? static_cast<TraceSink*>(&one) : writer->get(),
                                    .recorded_ranks = {0, 1, 2, 3}});
  REQUIRE(simulator.ok());
  std::vector<test::Trained> all(static_cast<std::size_t>(run.ranks));
  const Status status = test::train(
      **simulator, run, [&](Rank r) -> test::Trained& { return all[static_cast<std::size_t>(r)]; },
      [&] { return (*simulator)->finish(); });
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE((*writer)->finish().ok());
}

// All that a file says, one line each; `ahead`: of its clock.
std::vector<std::string> lines_of(const std::string& path, Time ahead) {
  auto reader = TraceReader::open(path);
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
  std::vector<std::string> lines;
  const auto ops = reader->ops();
  for (const auto& op : *ops) {
    lines.push_back(fmt::format("op {} {} {} after {}", op.id, op.label, op.step,
                                fmt::join(reader->waits(op.id, op.id + 1)->after, ",")));
  }
  for (Rank rank = 0; rank < merge_ranks; ++rank) {
    const auto lanes = reader->lanes(rank, 0, std::numeric_limits<Time>::max());
    for (const storage::Lane& lane : *lanes) {
      for (std::size_t k = 0; k < lane.op.size(); ++k) {
        lines.push_back(fmt::format("rank {} stream {} op {}: {} {} {}", rank, lane.stream,
                                    lane.op[k], lane.begin[k] - ahead, lane.ready[k] - ahead,
                                    lane.end[k] - ahead));
      }
    }
    const auto memory = reader->memory(rank);
    for (std::size_t k = 0; k < memory->time.size(); ++k) {
      lines.push_back(fmt::format("rank {} at {}: {} {} {}", rank, memory->time[k] - ahead,
                                  memory->buffer[k], memory->delta[k].value,
                                  memory->allocated[k].value));
    }
  }
  const auto of_steps = reader->rank_steps();
  for (std::size_t k = 0; k < of_steps->begin.size(); ++k) {
    lines.push_back(fmt::format("step {} {} {} {} {} {} {}", of_steps->begin[k] - ahead,
                                of_steps->end[k] - ahead, of_steps->compute[k],
                                of_steps->communication[k], of_steps->exposed[k], of_steps->wait[k],
                                of_steps->peak_allocated[k].value));
  }
  return lines;
}

TEST_CASE("files of single ranks with clocks of their own become the trace of all ranks",
          "[host][merge]") {
  const test::TemporaryFolder folder;
  for (const auto& [name, scheme] : test::schemes()) {
    INFO(name);
    const test::Run run = test::training_run(scheme, merge_ranks);
    const std::string whole = folder.path() + "/whole.tessera";
    record(run, whole, {}, 0);
    std::vector<std::string> files;
    Time most = 0;
    for (Rank rank = 0; rank < merge_ranks; ++rank) {
      files.push_back(fmt::format("{}/{}.tessera", folder.path(), rank));
      const Time ahead = (rank * 7 % 4) * Time{900'000'000};
      record(run, files.back(), rank, ahead);
      most = std::max(most, ahead);
    }
    const auto merged = exchange::merge_traces(files, folder.path() + "/merged.tessera");
    INFO(merged.status().message());
    REQUIRE(merged.ok());
    CHECK(merged->warnings.empty());
    CHECK(merged->ranks == std::vector<Rank>{0, 1, 2, 3});
    CHECK(lines_of(folder.path() + "/merged.tessera", most) == lines_of(whole, 0));
  }
}

TEST_CASE("of a rank that several files have the longest is taken, and others' steps are unknown",
          "[host][merge]") {
  const test::TemporaryFolder folder;
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, merge_ranks);
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  record(run, path("0-short"), 0, 0, 100);
  record(run, path("0"), 0, 0);
  record(run, path("2"), 2, 5'000);
  const auto merged =
      exchange::merge_traces({path("0-short"), path("0"), path("2")}, path("merged"));
  INFO(merged.status().message());
  REQUIRE(merged.ok());
  CHECK(merged->files[0].ranks.empty());
  CHECK(merged->files[1].ranks == std::vector<Rank>{0});
  REQUIRE(merged->warnings.size() == 2);
  CHECK(merged->warnings[0] == "2 of 4 ranks are in no file");
  CHECK(merged->warnings[1].find("not all members are in a file") != std::string::npos);
  auto reader = TraceReader::open(path("merged"));
  REQUIRE(reader.ok());
  const auto of_steps = reader->rank_steps();
  REQUIRE(of_steps->steps == test::training_run_steps + 1);
  CHECK(of_steps->end[0] > of_steps->begin[0]);
  CHECK(of_steps->end[1] == of_steps->begin[1]);
  CHECK(of_steps->end[2] > of_steps->begin[2]);
}

// A rank that was killed when it had declared its streams, and nothing else yet.
void record_only_streams_of(const std::string& path, const std::string& out) {
  auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  auto writer = TraceWriter::create(out);
  REQUIRE(writer.ok());
  (*writer)->begin(reader->info().run);
  for (const auto& s : reader->info().streams) (*writer)->stream({s.id, s.name, s.role});
  REQUIRE((*writer)->finish().ok());
}

TEST_CASE("a rank that was killed before it had declared its groups does not hide those of others",
          "[host][merge]") {
  const test::TemporaryFolder folder;
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, merge_ranks);
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  record(run, path("0"), 0, 0);
  record(run, path("1"), 1, 0);
  record_only_streams_of(path("0"), path("0-killed"));
  const auto merged = exchange::merge_traces({path("0-killed"), path("1")}, path("merged"));
  INFO(merged.status().message());
  REQUIRE(merged.ok());
  auto reader = TraceReader::open(path("merged"));
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
  const auto other = TraceReader::open(path("1"));
  REQUIRE(other.ok());
  REQUIRE_FALSE(other->info().communicators.empty());
  CHECK(reader->info().communicators.size() == other->info().communicators.size());
  CHECK(reader->info().units.size() == other->info().units.size());
}

TEST_CASE("a file whose times overflow is damaged, not added to", "[host][merge]") {
  const test::TemporaryFolder folder;
  const test::Run run = test::training_run(FullyShardOptions{.units = {"pair"}}, merge_ranks);
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  record(run, path("a"), 0, 0);
  record(run, path("b"), 1, std::numeric_limits<Time>::max() / 2);
  const auto merged = exchange::merge_traces({path("a"), path("b")}, path("merged"));
  CHECK(merged.status().code() == Code::corrupt);
  CHECK(merged.status().message().find("it has times that no run has") != std::string::npos);
}

TEST_CASE("files of different runs are not merged, and nothing is written", "[host][merge]") {
  const test::TemporaryFolder folder;
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  record(test::training_run(FullyShardOptions{.units = {"pair"}}, merge_ranks), path("a"), 0, 0);
  record(test::training_run(FullyShardOptions{.units = {"shared"}}, merge_ranks), path("b"), 1, 0);
  const auto merged = exchange::merge_traces({path("a"), path("b")}, path("merged"));
  CHECK(merged.status().code() == Code::invalid_argument);
  CHECK(merged.status().message().find("are not of one run: operation ") != std::string::npos);
  CHECK(exchange::merge_traces({path("a"), path("b")}, path("a"))
            .status()
            .message()
            .find("choose another name") != std::string::npos);
  CHECK_FALSE(TraceReader::open(path("merged")).ok());
}

TEST_CASE("each rank of a real run can keep a trace of its own, which needs no other rank",
          "[host][merge]") {
  const test::TemporaryFolder folder;
  for (const auto& [name, scheme] : test::schemes()) {
    INFO(name);
    const test::Run run = test::training_run(scheme, merge_ranks);
    test::RecordedTrace together;
    test::require_all_ok(test::traced(run, together, test::SkewedClocks()));
    std::vector<test::RecordedTrace> own(merge_ranks);
    test::require_all_ok(test::traced_alone(run, own, test::SkewedClocks()));
    for (Rank rank = 0; rank < merge_ranks; ++rank) {
      const test::RecordedTrace& trace = own[static_cast<std::size_t>(rank)];
      CHECK(trace.order == together.order);
      CHECK(trace.peaks == together.peaks);
      CHECK(trace.memory_of.size() == 1);
      CHECK(trace.memory_of.at(rank).size() == together.memory_of.at(rank).size());
      for (const auto& [op, spans] : together.spans_of) {
        if (!spans.contains(rank)) continue;
        REQUIRE(trace.spans_of.contains(op));
        CHECK(trace.spans_of.at(op).size() == 1);
        CHECK(trace.spans_of.at(op).contains(rank));
      }
      REQUIRE(trace.steps.size() == together.steps.size());
      for (const auto& step : trace.steps) {
        for (Rank r = 0; r < merge_ranks; ++r) {
          const auto& s = step[static_cast<std::size_t>(r)];
          CHECK((s.end > s.begin) == (r == rank));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
