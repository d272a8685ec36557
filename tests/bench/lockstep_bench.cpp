// SPDX-License-Identifier: Apache-2.0
// How fast the lockstep core is: operations x ranks per second, beside an event queue that does the
// same work and beside what the machine's memory allows, all in one run.
//
//   bench_lockstep [MODEL.json] [RANKS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "engine/tracing/clock_kernels.h"
#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/bench/measure.h"
#include "tests/sim/heap_oracle.h"

namespace {

using tessera::bench::median;

using namespace tessera;  // a program, not a library

// Of the processor, so that what else a machine does counts less.
double seconds(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

struct Bench {
  const Model& model;
  sim::Cluster cluster;
  std::unique_ptr<sim::CostModel> costs;
  TrainingOptions training{.sequence_length = 8192};
  FullyShardOptions fully_shard{.param_dtype = DType::bfloat16};

  // Op-ranks per second over `steps` steps after some that warm up: of the program, or as
  // `simulate` does it, which leaves steps that repeat to the runtime.
  double lockstep(double jitter, int steps, bool repeated) const {
    auto runtime = sim::LockstepRuntime::create({.world_size = cluster.ranks(),
                                                 .ranks_per_node = cluster.gpus_per_node,
                                                 .cost = costs.get(),
                                                 .seed = 1,
                                                 .jitter = jitter});
    auto engine = tessera::fully_shard(**runtime, model, fully_shard);
    auto step = [&] {
      const Status status = run_training_step(**engine, model, training);
      TESSERA_ASSERT(status.ok(), status.message().c_str());
    };
    step();
    bool repeats = false;
    for (int k = 0; repeated && !repeats && k < 8; ++k) {
      step();
      repeats = (*runtime)->step_repeats();
    }
    TESSERA_ASSERT(repeats == repeated, "steps repeat");
    const std::int64_t before = (*runtime)->op_ranks();
    const double time = seconds([&] {
      for (int k = 0; k < steps; ++k) {
        if (repeated) {
          TESSERA_ASSERT((*runtime)->repeat_step().ok(), "a step is repeated");
        } else {
          step();
        }
      }
    });
    return static_cast<double>((*runtime)->op_ranks() - before) / time;
  }

  double heap(Rank ranks, double jitter) const {
    Recording recording;
    auto recorder = make_recording_runtime(ranks, recording);
    auto engine = tessera::fully_shard(*recorder, model, fully_shard);
    const Status status = run_training_step(**engine, model, training);
    TESSERA_ASSERT(status.ok(), status.message().c_str());
    const test::Program program = test::program_of(recording, *costs);
    auto duration = [jitter](std::int32_t event, Rank rank, Time nominal) {
      const std::uint64_t u = hash32(static_cast<std::uint32_t>(rank * 7919) ^
                                     hash32(static_cast<std::uint32_t>(event)));
      const auto amplitude = static_cast<Time>(jitter * static_cast<double>(nominal));
      return nominal - amplitude +
             static_cast<Time>((static_cast<std::uint64_t>(2 * amplitude) * u) >> 32);
    };
    const double time = seconds([&] { test::run_heap(program, ranks, duration, false); });
    return static_cast<double>(program.steps.size()) * ranks / time;
  }

  // One clock read and one written per op and rank: what a core that did nothing else would reach.
  double memory_limit() const {
    const auto n = static_cast<std::int64_t>(cluster.ranks());
    constexpr int arrays = 16;  // about as many as a step keeps alive
    std::vector<std::vector<Time>> clocks(arrays, std::vector<Time>(static_cast<std::size_t>(n)));
    constexpr int rounds = 4000;
    const double time = seconds([&] {
      for (int k = 0; k < rounds; ++k) {
        clock_add(clocks[static_cast<std::size_t>((k + 1) % arrays)].data(),
                  clocks[static_cast<std::size_t>(k % arrays)].data(), 1, n);
      }
    });
    return static_cast<double>(rounds) * static_cast<double>(n) / time;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : std::string(TESSERA_SOURCE_DIR) + "/examples/models/llama-3-8b.json";
  const Rank ranks = argc > 2 ? std::atoi(argv[2]) : 16384;
  const auto model = load_model(path);
  const auto cluster = sim::load_cluster("dgx-h100", std::max(1, ranks / 8));
  if (!model.ok() || !cluster.ok()) {
    fmt::print(stderr, "bench_lockstep: {}\n",
               model.ok() ? cluster.status().message() : model.status().message());
    return 2;
  }
  const Bench bench{*model, *cluster, sim::make_cost_model(*cluster)};
  std::vector<double> limit, even, jittered, repeated, heap;
  const Rank heap_ranks = std::min<Rank>(cluster->ranks(), 1024);  // the heap is too slow for more
  for (int k = 0; k < 5; ++k) {
    limit.push_back(bench.memory_limit());
    even.push_back(bench.lockstep(0, 10, false));
    jittered.push_back(bench.lockstep(0.02, 10, false));
    repeated.push_back(bench.lockstep(0.02, 20, true));
    heap.push_back(bench.heap(heap_ranks, 0.02));
  }
  auto row = [&](const char* what, double rate) {
    fmt::print("{:<44} {:>8.3f} G op-ranks/s  {:>6.1f} % of the limit  {:>7.1f} x the heap\n", what,
               rate / 1e9, 100 * rate / median(limit), rate / median(heap));
  };
  fmt::print("{}, {} ranks, medians of 5\n", model->name, cluster->ranks());
  row("limit: one clock read, one written", median(limit));
  row("lockstep, all checks and accounts", median(even));
  row("lockstep with 2 % jitter", median(jittered));
  row("2 % jitter, steps that repeat", median(repeated));
  row(fmt::format("event queue, {} ranks", heap_ranks).c_str(), median(heap));
  return 0;
}
