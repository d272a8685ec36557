// SPDX-License-Identifier: Apache-2.0
// What the engine and its trace cost a step of real processes, with bodies of a fixed length: a GPT
// of 0.8 million parameters, sharded.
//
//   bench_host local TRACE [STEPS] [MICROSECONDS_PER_MODULE]
//   mpirun -n 4 bench_host mpi TRACE [STEPS] [MICROSECONDS_PER_MODULE]
//   bench_host count TRACE|- STEPS
//
// Runs with and without a trace take turns; the ratio is the median of theirs. The engine's share
// is when nothing computes and no collective is under way, on the average rank, as the trace tells.
// Under valgrind --tool=callgrind, `count` shows what one run costs, with a trace or, where TRACE
// is -, without (docs/measurements/overhead.md).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tessera/fully_shard.h"
#include "tessera/host_runtime.h"
#include "tessera/scheme.h"
#include "tessera/storage/trace_writer.h"
#include "tessera/training.h"
#include "tests/bench/measure.h"

namespace {

using tessera::bench::median;
using tessera::bench::now;

using namespace tessera;  // a program, not a library

constexpr int rounds = 5;

// Passes a trace on, and keeps the steps.
class Steps final : public TraceSink {
 public:
  explicit Steps(TraceSink& next) : next_(next) {}
  std::vector<double> engine_shares;

  void begin(const TraceRun& v) override { next_.begin(v); }
  void stream(const TraceStream& v) override { next_.stream(v); }
  void communicator(const TraceCommunicator& v) override { next_.communicator(v); }
  void unit(const TraceUnit& v) override { next_.unit(v); }
  void op(const TraceOp& v) override { next_.op(v); }
  void spans(const SpanBatch& v) override { next_.spans(v); }
  void buffer(const TraceBuffer& v) override { next_.buffer(v); }
  void memory(std::span<const MemorySample> v) override { next_.memory(v); }
  void peak_memory(const PeakMemory& v) override { next_.peak_memory(v); }
  void rank_steps(const RankStepBatch& v) override {
    double share = 0;
    for (std::size_t r = 0; r < v.begin.size(); ++r) {
      const Time step = v.end[r] - v.begin[r];
      share += static_cast<double>(step - v.compute[r] - v.exposed[r]) /
               static_cast<double>(std::max<Time>(step, 1));
    }
    if (v.step > 0) engine_shares.push_back(share / static_cast<double>(v.begin.size()));
    next_.rank_steps(v);
  }
  void diagnostic(const TraceDiagnostic& v) override { next_.diagnostic(v); }
  Status finish() override { return next_.finish(); }

 private:
  TraceSink& next_;
};

struct Bench {
  Model model;
  int steps = 20;
  Time per_module = 0;
  std::string path;
  bool alone = true;

  Result<std::unique_ptr<HostRuntime>> runtime(TraceSink* sink) const {
    const HostOptions options{.clock = now, .aio = {}, .sink = sink};
    return alone ? make_local_runtime(options) : make_mpi_runtime(options, TESSERA_BINARY_DIR);
  }

  // A step's work may end later than the call that asks for it.
  static Status settle(Runtime& runtime, StreamId stream) {
    TESSERA_ASSIGN(const EventId end, runtime.submit({.stream = stream,
                                                      .where = runtime.world(),
                                                      .after = {},
                                                      .cause = {},
                                                      .what = Mark{Mark::Kind::phase}}));
    return runtime.wait(end);
  }

  // Milliseconds of a step; `shares`: the engine's, on rank 0 of a traced run.
  Result<double> run(TraceSink* sink) const {
    TESSERA_ASSIGN(auto host, runtime(sink));
    FullyShardOptions options;
    for (int layer = 0; layer < 4; ++layer) {
      options.units.push_back(fmt::format("h.{}", layer));
    }
    TESSERA_ASSIGN(auto engine, fully_shard(host->seam(), model, options));
    TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 0.0F; }));
    TrainingOptions training{.batch = 8, .sequence_length = 128};
    training.body = [this, &host](ModuleId, ModuleWork::Pass, std::int32_t) {
      return [this, &host](const BodyContext&) {
        for (const Time end = now() + per_module; now() < end;) {
          if (!host->poll().ok()) return;
        }
      };
    };
    std::vector<double> times;
    for (int step = 0; step < steps; ++step) {
      const Time begin = now();
      TESSERA_TRY(run_training_step(*engine, model, training));
      TESSERA_TRY(settle(host->seam(), engine->compute_stream()));
      times.push_back(static_cast<double>(now() - begin) / 1e6);
    }
    TESSERA_TRY(host->finish());
    return median(times);
  }

  // One run.
  Status count() const {
    std::vector<double> ignored;
    return path == "-" ? run(nullptr).status() : traced(1, true, ignored).status();
  }

  Result<double> traced(Rank ranks, bool first, std::vector<double>& shares) const {
    if (!first) return run(nullptr);
    TESSERA_ASSIGN(auto writer, storage::TraceWriter::create(path));
    Steps sink(*writer);
    TraceRun about{.name = fmt::format("bench on {} processes", ranks),
                   .model = model.name,
                   .scheme = "fully_shard",
                   .cluster = "host",
                   .carrier = alone ? "local" : "mpi",
                   .options = "{}",
                   .version = "bench"};
    about.ranks = about.ranks_per_node = ranks;
    about.recorded_ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(about.recorded_ranks.begin(), about.recorded_ranks.end(), 0);
    sink.begin(about);
    TESSERA_ASSIGN(const double ms, run(&sink));
    TESSERA_TRY(sink.finish());
    shares.push_back(median(sink.engine_shares));
    return ms;
  }

  Status compare() const {
    TESSERA_ASSIGN(auto probe, runtime(nullptr));
    const Rank ranks = probe->seam().world().count();
    const bool first = probe->seam().carried().first() == 0;
    TESSERA_TRY(probe->finish());
    probe.reset();
    std::vector<double> ratios, shares, plain_ms;
    for (int round = 0; round < rounds; ++round) {
      TESSERA_ASSIGN(const double plain, run(nullptr));
      TESSERA_ASSIGN(const double traced_ms, traced(ranks, first, shares));
      ratios.push_back(traced_ms / plain);
      plain_ms.push_back(plain);
    }
    if (!first) return {};
    fmt::print("{} processes, {:.2f} ms a step\n", ranks, median(plain_ms));
    fmt::print("tracing:  {:+.2f} % of a step\n", 100 * (median(ratios) - 1));
    fmt::print("engine:   {:.2f} % of a step outside of computing and collectives\n",
               100 * median(shares));
    return {};
  }
};

}  // namespace

int main(int argc, char** argv) {
  auto model = parse_model(R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "n_embd": 128, "n_head": 4, "n_layer": 4, "n_positions": 128, "n_ctx": 128,
      "vocab_size": 256, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"})",
                           "bench");
  if (!model.ok()) return fmt::print("{}\n", model.status().message()), 1;
  if (argc < 3) return fmt::print("usage: bench_host local|mpi TRACE [STEPS] [MICROSECONDS]\n"), 2;
  Bench bench{.model = *std::move(model),
              .steps = argc > 3 ? std::atoi(argv[3]) : 20,
              .per_module = 1000 * static_cast<Time>(argc > 4 ? std::atoi(argv[4]) : 500),
              .path = argv[2],
              .alone = std::string_view(argv[1]) == "local"};
  const bool counts = std::string_view(argv[1]) == "count";
  if (counts) bench.alone = true, bench.per_module = 0;
  const Status status = counts ? bench.count() : bench.compare();
  if (!status.ok()) fmt::print("{}\n", status.message());
  return status.ok() ? 0 : 1;
}
