// SPDX-License-Identifier: Apache-2.0
// What the engine and its trace cost a step of real processes, with bodies of a fixed length: a GPT
// of 0.8 million parameters, sharded.
//
//   bench_host local TRACE [STEPS] [MICROSECONDS_PER_MODULE]
//   mpirun -n 4 bench_host mpi TRACE [STEPS] [MICROSECONDS_PER_MODULE]
//   bench_host count TRACE|- STEPS
//   bench_host shares TRACE
//
// Runs with and without a trace take turns; the ratio is the median of theirs. The engine's share
// is what step_shares.h calls `none`; `shares` prints it of any trace.
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
#include "tests/bench/step_shares.h"

namespace {

using tessera::bench::median;
using tessera::bench::now;

using namespace tessera;  // a program, not a library

constexpr int rounds = 5;

struct Bench {
  Model model;
  int steps = 20;
  Time per_module = 0;
  std::string path;
  bool alone = true;

  Result<std::unique_ptr<ProcessRuntime>> runtime(TraceSink* sink) const {
    const HostOptions options{.clock = now, .aio = {}, .sink = sink};
    return alone ? make_local_runtime(options) : make_mpi_runtime(options, TESSERA_BINARY_DIR);
  }

  // A step's work may end later than the call that asks for it.
  static Status wait_for_all(Runtime& runtime, StreamId stream) {
    TESSERA_ASSIGN(const EventId end, runtime.submit({.stream = stream,
                                                      .where = runtime.world(),
                                                      .after = {},
                                                      .cause = {},
                                                      .what = Mark{marks::phase}}));
    return runtime.wait(end);
  }

  // Milliseconds of a step.
  Result<double> run(TraceSink* sink) const {
    TESSERA_ASSIGN(auto host, runtime(sink));
    FullyShardOptions options;
    for (int layer = 0; layer < 4; ++layer) {
      options.units.push_back(fmt::format("h.{}", layer));
    }
    TESSERA_ASSIGN(auto engine, fully_shard(*host, model, options));
    TESSERA_TRY(engine->initialise([](ParameterId, Numel) { return 0.0F; }));
    TrainingOptions training{.batch = 8, .sequence_length = 128};
    training.body = [this, &host](ModuleId, ModuleWork::Pass, std::int32_t) {
      return [this, &host](const BodyContext&) {
        for (const Time end = now() + per_module; now() < end;) {
          if (!host->poll().ok()) return;
        }
      };
    };
    TrainingSteps training_steps(*engine, model);
    std::vector<double> times;
    for (int step = 0; step < steps; ++step) {
      const Time begin = now();
      TESSERA_TRY(training_steps.run(training));
      TESSERA_TRY(wait_for_all(*host, engine->compute_stream()));
      times.push_back(static_cast<double>(now() - begin) / 1e6);
    }
    TESSERA_TRY(host->finish());
    return median(times);
  }

  // One run.
  Status count() const { return path == "-" ? run(nullptr).status() : traced(1, true).status(); }

  Result<double> traced(Rank ranks, bool first) const {
    if (!first) return run(nullptr);
    TESSERA_ASSIGN(auto writer, storage::TraceWriter::create(path));
    TraceRun about{.name = fmt::format("bench on {} processes", ranks),
                   .model = model.name,
                   .scheme = "fully_shard",
                   .cluster = "host",
                   .backend = alone ? "local" : "mpi",
                   .options = "{}",
                   .version = "bench"};
    about.ranks = about.ranks_per_node = ranks;
    about.recorded_ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(about.recorded_ranks.begin(), about.recorded_ranks.end(), 0);
    writer->begin(about);
    TESSERA_ASSIGN(const double ms, run(writer.get()));
    TESSERA_TRY(writer->finish());
    return ms;
  }

  Status compare() const {
    TESSERA_ASSIGN(auto probe, runtime(nullptr));
    const Rank ranks = probe->world().count();
    const bool first = probe->local_ranks().first() == 0;
    TESSERA_TRY(probe->finish());
    probe.reset();
    std::vector<double> ratios, shares, plain_ms;
    for (int round = 0; round < rounds; ++round) {
      TESSERA_ASSIGN(const double plain, run(nullptr));
      TESSERA_ASSIGN(const double traced_ms, traced(ranks, first));
      if (!first) continue;
      TESSERA_ASSIGN(const auto parts, tessera::bench::step_shares(path));
      shares.push_back(parts.none);
      ratios.push_back(traced_ms / plain);
      plain_ms.push_back(plain);
    }
    if (!first) return {};
    fmt::print("{} processes, {:.2f} ms a step\n", ranks, median(plain_ms));
    fmt::print("tracing:  {:+.2f} % of a step\n", 100 * (median(ratios) - 1));
    fmt::print("engine:   {:.2f} % of a step in which nothing computes, copies or communicates\n",
               100 * median(shares));
    return {};
  }
};

Status print_shares(const std::string& path) {
  TESSERA_ASSIGN(const auto shares, tessera::bench::step_shares(path));
  fmt::print(
      "computes {:.1f} %, else communicates {:.1f} %, else copies {:.1f} %, between steps {:.1f} "
      "%, "
      "none {:.1f} %\n",
      100 * shares.computes, 100 * shares.communicates, 100 * shares.copies, 100 * shares.between,
      100 * shares.none);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  auto model = parse_model(R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "n_embd": 128, "n_head": 4, "n_layer": 4, "n_positions": 128, "n_ctx": 128,
      "vocab_size": 256, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"})",
                           "bench");
  if (!model.ok()) return fmt::print("{}\n", model.status().message()), 1;
  if (argc < 3)
    return fmt::print("usage: bench_host local|mpi|count|shares TRACE [STEPS] [MICROSECONDS]\n"), 2;
  Bench bench{.model = *std::move(model),
              .steps = argc > 3 ? std::atoi(argv[3]) : 20,
              .per_module = 1000 * static_cast<Time>(argc > 4 ? std::atoi(argv[4]) : 500),
              .path = argv[2],
              .alone = std::string_view(argv[1]) == "local"};
  const bool counts = std::string_view(argv[1]) == "count";
  if (counts) bench.alone = true, bench.per_module = 0;
  const bool reads = std::string_view(argv[1]) == "shares";
  const Status status = reads ? print_shares(bench.path) : counts ? bench.count() : bench.compare();
  if (!status.ok()) fmt::print("{}\n", status.message());
  return status.ok() ? 0 : 1;
}
